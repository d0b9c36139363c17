"""Finished texts outlive whoever keeps them, and have one keeper at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ecumene.sim.backgrounds.kept import KeptTexts, KeptTextsError


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.cache"
    with KeptTexts(path) as kept:
        assert kept.find("a") is None
        kept.keep([("a", {"text": "東京"}), ("b", {})])
        kept.keep([("a", {"text": "Łódź"})])
    with KeptTexts(path) as kept:
        assert kept.find("a") == {"text": "Łódź"}
        assert kept.find("b") == {}


def test_a_second_keeper_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    with KeptTexts(path), pytest.raises(KeptTextsError, match="another command writes these backgrounds now"):
        KeptTexts(path).__enter__()


def test_what_is_no_such_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_text("my notes, long enough to be no header of a database" * 10)
    before = path.read_bytes()
    with pytest.raises(KeptTextsError, match="holds no finished texts"):
        KeptTexts(path).__enter__()
    assert path.read_bytes() == before


def test_a_keeper_that_is_killed_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    program = (
        "import sys; from pathlib import Path; from ecumene.sim.backgrounds.kept import KeptTexts; "
        "kept = KeptTexts(Path(sys.argv[1])).__enter__(); kept.keep([('a', {'text': 'b'})]); "
        "print('kept', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"kept\n"
        with pytest.raises(KeptTextsError, match="another command"):
            KeptTexts(path).__enter__()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with KeptTexts(path) as kept:
        assert kept.find("a") == {"text": "b"}

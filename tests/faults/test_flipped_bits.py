"""Single bits flipped anywhere in a world's file: told, or harmless, and never repaired or hidden."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from env_server.offline.commands import main
from env_server.offline.upgrade import upgrade
from env_server.storage import layout
from tests.stored_worlds import unpack_world

ROOT = Path(__file__).resolve().parents[2]
FLIPS, FLIPS_LONG = 200, 5000


def flip_everywhere(directory: Path, flips: int, seed: int) -> dict[str, int]:
    """How many flips were told of, ended the process that read them, or did no harm."""
    world = unpack_world(1, "whole", directory)
    upgrade(world)
    (world / "whole").write_bytes((world / layout.DATA_FILE).read_bytes())
    told: dict[str, int] = {"whole": 0, "damaged": 0, "ended": 0}
    done = 0
    while done < flips:
        command = [sys.executable, "-m", "tests.faults.flipping_child", str(world), str(seed), str(done), str(flips)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
        for line in child.stdout.splitlines():
            number, what = line.split()
            assert int(number) == done
            told[what] += 1
            done += 1
        if child.returncode:
            assert child.returncode < 0, child.stderr[-2000:]
            told["ended"] += 1
            done += 1
    assert main(["verify", str(world)]) == 0, "the file is whole again"
    return told


def check_flips(directory: Path, flips: int, seed: int) -> None:
    told = flip_everywhere(directory, flips, seed)
    print(told)
    # Many bits lie in free space, or in the older of LMDB's two meta pages, where they harm nobody.
    assert told["damaged"] > flips // 10
    assert told["ended"] < flips // 20


def test_flipped_bits_are_told(tmp_path: Path, seed: int) -> None:
    check_flips(tmp_path, FLIPS, seed)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_flipped_bits_are_told(tmp_path: Path, seed: int) -> None:
    check_flips(tmp_path, FLIPS_LONG, seed)


def test_damaged_pages_that_end_a_reader_are_told_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """With a reader that is ended by a signal, since which bits do that is LMDB's affair."""
    world = unpack_world(1, "whole", tmp_path)
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -SEGV $$\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    assert main(["verify", str(world)]) == 1
    assert b"its pages are damaged: reading them ends the process (SIGSEGV)" in capfdbinary.readouterr().out

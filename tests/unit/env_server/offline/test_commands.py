"""The command line: exit codes, one line for what cannot be done, lines that programs can read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from env_server.model.limits import MIB, Limits
from env_server.offline.commands import main
from env_server.storage import layout
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.stored_worlds import unpack_world


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("whole", "trimmed"):
        unpack_world(1, name, tmp_path)
    return tmp_path


def run(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(), captured.err.decode()


def test_all_worlds_of_a_data_directory_are_upgraded_and_checked(
    data: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, out, err = run(capfdbinary, "upgrade", data)
    assert (code, err) == (0, "")
    assert out.count("upgraded from storage format 1 to 4") == 2
    assert run(capfdbinary, "upgrade", data)[1].count("has storage format 4 already") == 2
    code, out, _ = run(capfdbinary, "verify", data)
    assert code == 0
    assert "whole: the state is what the log tells" in out
    assert "the log does not reach back to the beginning" in out
    code, out, _ = run(capfdbinary, "verify", "--json", data / "whole")
    told = json.loads(out)
    assert (code, told["whole"], told["revision"], told["rows"]["entries"]) == (0, True, 177, 93)


def test_damage_is_an_exit_code_and_named(data: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = data / "whole" / layout.DATA_FILE
    content = file.read_bytes()
    needle = b"in a transaction"
    assert needle in content
    file.write_bytes(content.replace(needle, b"IN a transaction"))
    code, out, _ = run(capfdbinary, "verify", data)
    assert code == 1
    assert "DAMAGED log, " in out
    assert "nothing was changed: restore a snapshot" in out
    code, _, err = run(capfdbinary, "dump-log", data / "whole")
    assert code == 1
    assert "the checksum of log record" in err


def test_the_log_is_lines_of_json_and_a_reader_may_stop(data: Path) -> None:
    command = f"{sys.executable} -m env_server.offline.commands dump-log {data / 'whole'} --from 100 | head -n 1"
    told = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert json.loads(told.stdout)["revision"] == 100
    assert told.stderr == ""


@pytest.mark.parametrize("command", ["dump-log", "replay"])
def test_of_many_worlds_one_must_be_named(data: Path, capfdbinary: pytest.CaptureFixture[bytes], command: str) -> None:
    code, out, err = run(capfdbinary, command, data)
    assert (code, out) == (1, "")
    assert f"give one of a world, such as {data / 'trimmed'}" in err


def test_replay_says_what_it_made(data: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, _ = run(capfdbinary, "replay", data / "whole", "--through", "77", "--into", tmp_path / "new")
    assert code == 0
    assert "revision 77: 7 environments" in out
    assert "history " in out
    assert (tmp_path / "new" / layout.DATA_FILE).exists()


@pytest.mark.parametrize("command", ["verify", "dump-log", "replay", "upgrade"])
def test_what_cannot_be_done_is_one_line(data: Path, command: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, err = run(capfdbinary, command, data / "nothing here")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "nothing here" in err
    main(["upgrade", str(data)])
    log = LmdbCommitLog.open(data / "whole", Limits(map_bytes=64 * MIB), lambda: "h")
    capfdbinary.readouterr()
    code, _, err = run(capfdbinary, command, data / "whole")
    log.close()
    assert (code, err.count("\n")) == (1, 1)
    assert "stop that server or choose another directory" in err


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["nonsense"], ["verify"], ["dump-log", "x", "--from", "0"], ["dump-log", "x", "--to", str(2**64)]),
        ["replay", "x", "--through", "9" * 30],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: ecumene offline" in capsys.readouterr().err

"""The types of the blocking SDK are those of its objects, and of the asyncio SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from ecumene import sync

with sync.connect("127.0.0.1:1") as world:
    room = world.environment("/room")
    written: sync.Written = room.set("a", 1)
    keys: list[str] = [entry.key for entry in room.entries()]
    count: int = world.frames.submit_block("/room", ["a"], [1.0]).result().ok_count
    for event in room.watch():
        revision: int = event.revision
    names: list[str] = [info.name for info in sync.Worlds("127.0.0.1:1").list()]
    room.set("a", wrong=1)
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_the_stub_is_up_to_date() -> None:
    done = run("clients/python/generate_sync_stub.py", "--check")
    assert done.returncode == 0, f"run clients/python/generate_sync_stub.py\n{done.stderr}"


def test_the_stub_tells_what_is_there_at_run_time() -> None:
    done = run("-m", "mypy.stubtest", "ecumene.client.sync", "--mypy-config-file", "pyproject.toml")
    assert done.returncode == 0, done.stdout


def test_a_program_is_checked_by_its_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = run("-m", "mypy", "--config-file", "pyproject.toml", str(program))
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "program.py:12" in errors[0]

"""What a daemon makes of what its worker says, and fails to say."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.commands import Inspect
from agent_runtime.model.errors import CommandError, WorkerEndedError
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker_process import WorkerProcess
from tests.unit.agent_runtime.stage import make_launch

READY = 'print(\'{"state": "ready", "agents": 0}\', flush=True); config = sys.stdin.readline(); '


async def start(folder: Path, code: str, **options: Any) -> WorkerProcess:
    """A worker that does this."""
    config = WorkerConfig(server="", world="w", index=3, launch=make_launch(folder, "random", ["a"]))
    program = (sys.executable, "-c", f"import json, os, sys, time; {code}")
    return await WorkerProcess.start(config, program=program, **options)


async def test_answers_go_to_whoever_asked_in_any_order(tmp_path: Path) -> None:
    code = READY + "a, b = (json.loads(sys.stdin.readline())['id'] for _ in range(2)); "
    code += "print(json.dumps({'answer': b, 'x': 2}), flush=True); "
    code += "print(json.dumps({'answer': a, 'error': 'not now'}), flush=True); sys.stdin.read()"
    worker = await start(tmp_path, code)
    await worker.wait_ready()
    refused, answered = await asyncio.gather(
        worker.ask(lambda number: Inspect(id=number), 10),
        worker.ask(lambda number: Inspect(id=number), 10),
        return_exceptions=True,
    )
    assert isinstance(refused, CommandError) and str(refused) == "not now"
    assert isinstance(answered, dict) and answered["x"] == 2
    await worker.stop(5)
    assert worker.failure is None


async def test_whoever_waits_for_an_answer_is_told_that_the_worker_has_ended(tmp_path: Path) -> None:
    worker = await start(tmp_path, READY + "sys.stdin.readline(); os._exit(5)")
    await worker.wait_ready()
    for _ in range(2):
        with pytest.raises(WorkerEndedError):
            await worker.ask(lambda number: Inspect(id=number), 10)
    assert str(worker.failure) == "worker 3: ended with exit code 5"


async def test_a_silent_worker_is_given_up_after_a_while(tmp_path: Path) -> None:
    worker = await start(tmp_path, READY + "sys.stdin.read()")
    await worker.wait_ready()
    with pytest.raises(TimeoutError):
        await worker.ask(lambda number: Inspect(id=number), 0.1)
    await worker.stop(5)


async def test_what_is_no_line_for_the_daemon_goes_to_the_log(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "print('hello'); print('[1]'); print('x' * 5_000_000); print('oops', file=sys.stderr); "
    worker = await start(tmp_path, code + READY + "sys.stdin.read()", log=lines.append)
    await worker.wait_ready()
    await worker.stop(5)
    assert {"hello", "[1]", "oops"} <= set(lines)
    assert worker.failure is None


async def test_a_lost_part_is_told_or_ends_the_worker(tmp_path: Path) -> None:
    lose = "print(json.dumps({'lost': 'g.0', 'reason': 'lease'}), flush=True); sys.stdin.read()"
    heard: list[dict[str, Any]] = []
    worker = await start(tmp_path, READY + lose, hear=heard.append)
    await worker.wait_ready()
    async with asyncio.timeout(10):
        while not heard:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    await worker.stop(5)
    assert (heard, worker.failure) == ([{"lost": "g.0", "reason": "lease"}], None)
    alone = await start(tmp_path, READY + lose)
    with pytest.raises(WorkerEndedError, match=r"part g.0 was lost: lease"):
        await alone.wait_ended()


async def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    worker = await start(tmp_path, READY + "time.sleep(60)")
    await worker.wait_ready()
    await worker.stop(0.1, grace_s=0.1)
    assert worker.is_gone

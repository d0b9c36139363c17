"""What a daemon makes of what its worker says, and fails to say."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_runtime.model.errors import CommandError, WorkerEndedError
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker.commands import Inspect
from agent_runtime.worker.process import LAST_WORDS_S, WorkerProcess
from tests.unit.agent_runtime.stage import make_launch

READY = 'print(\'{"state": "ready", "agents": 0}\', flush=True); config = sys.stdin.readline(); '


async def wait_gone(left: psutil.Process) -> None:
    """It has ended, as far as this process can see: the kernel takes a moment."""
    async with asyncio.timeout(5):
        while left.is_running() and left.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


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


@pytest.mark.parametrize("ties", [True, False])
async def test_the_end_of_a_worker_is_noticed_whoever_holds_its_pipes(tmp_path: Path, ties: bool) -> None:
    child = "import subprocess; print(json.dumps({'lost': subprocess.Popen(['sleep', '60']).pid}), flush=True); "
    heard: list[dict[str, Any]] = []
    worker = await start(tmp_path, READY + child + "sys.stdin.read()", hear=heard.append, dies_with_us=ties, log=print)
    await worker.wait_ready()
    async with asyncio.timeout(10):
        while not heard:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    left = psutil.Process(heard[0]["lost"])
    try:
        os.kill(worker.pid, signal.SIGKILL)
        async with asyncio.timeout(LAST_WORDS_S + 5):
            with pytest.raises(WorkerEndedError, match="killed by signal 9"):
                await worker.wait_ended()
        if ties:  # what it had begun is gone as well
            await wait_gone(left)
    finally:
        if left.is_running():
            left.kill()


async def test_a_worker_that_stops_in_order_leaves_nothing_behind(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '60']); " + READY + "sys.stdin.read()"
    worker = await start(tmp_path, code, dies_with_us=True, log=print)
    await worker.wait_ready()
    (left,) = psutil.Process(worker.pid).children()
    await worker.stop(5)
    assert worker.failure is None
    await wait_gone(left)


async def test_lines_of_no_known_form_are_for_people(tmp_path: Path) -> None:
    said: list[Any] = [{"answer": []}, {"answer": {}}, {"answer": "1"}, {"answer": None}, {"answer": 77}]
    code = "".join(f"print({json.dumps(one)!r}, flush=True); " for one in said)
    code += "print('[' * 100_000); "
    code += (
        "number = json.loads(sys.stdin.readline())['id']; print(json.dumps({'answer': number, 'x': 1}), flush=True); "
    )
    lines: list[str] = []
    worker = await start(tmp_path, READY + code + "sys.stdin.read()", log=lines.append)
    await worker.wait_ready()
    assert (await worker.ask(lambda number: Inspect(id=number), 10))["x"] == 1
    await worker.stop(5)
    assert json.dumps({"answer": []}) in lines


async def test_what_agents_print_never_stands_among_the_lines_of_a_worker(tmp_path: Path) -> None:
    forged = json.dumps({"answer": 1, "x": "forged"})
    code = "from agent_runtime.programs.output import JsonLines, take_stdout; import subprocess; "
    code += "lines = JsonLines(take_stdout()); config = sys.stdin.readline(); lines.write({'state': 'ready'}); "
    code += "number = json.loads(sys.stdin.readline())['id']; "
    code += f"print({forged!r}, flush=True); subprocess.run(['echo', {forged!r}]); print('x', end='', flush=True); "
    code += "lines.write({'answer': number, 'x': 'own'}); sys.stdin.read()"
    told: list[str] = []
    worker = await start(tmp_path, code, log=told.append)
    await worker.wait_ready()
    assert (await worker.ask(lambda number: Inspect(id=number), 10))["x"] == "own"
    await worker.stop(5)
    assert told.count(forged) == 2


async def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    worker = await start(tmp_path, READY + "time.sleep(60)")
    await worker.wait_ready()
    await worker.stop(0.1, grace_s=0.1)
    assert worker.is_gone

"""One process that hosts agents: `python -m agent_runtime.worker`, started by the runtime and by nobody else.

    stdin    one line, the WorkerConfig, with the parts to host from the start; then one Command a line.
             Its end means: the runtime is gone, stop.
    --die-with PID   the process that has started this one: when it is gone, this one is killed at once
    stdout   JSON lines: {"worker": i, "state": "ready" | "ended" | "failed", …}, answers, parts that were lost

SIGTERM stops it as well. SIGINT is the runtime's to handle: a terminal sends it to both.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from ecumene.client import ClientSettings, EcumeneError, World, connect
from ecumene.lifeline import die_with, hold_lifeline

from agent_runtime.llm import ModelError
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.ownership.owner import Owner
from agent_runtime.programs.output import JsonLines, take_stdout
from agent_runtime.programs.stopping import wait_stop_or_failure
from agent_runtime.programs.usage import measure_usage
from agent_runtime.recording import Recorder, RecordingError
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker.command_handler import CommandHandler
from agent_runtime.worker.pipeline import Pipeline
from agent_runtime.worker.process import DIE_WITH

logger = logging.getLogger("ecumene.runtime")

# What a stop may take beyond its own time limit before the process ends itself.
EXIT_GRACE_S = 10.0
COLLECT_EVERY_S = 60.0
COLLECT_OBJECTS_MAX = 200_000
EXIT_OK, EXIT_FAILED = 0, 1
_EXPECTED = (AgentRuntimeError, EcumeneError, ModelError, RecordingError, OSError)


def main() -> int:
    """Host agents until told to stop; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(sys.argv) > 2 and sys.argv[1] == DIE_WITH:
        die_with(int(sys.argv[2]))
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    stdin = StdinLines()
    config = WorkerConfig.model_validate_json(stdin.take() or "")
    lines = JsonLines(take_stdout())
    if config.launch.worker.uvloop:
        try:
            import uvloop

            return uvloop.run(host(config, lines, stdin))
        except ModuleNotFoundError:
            pass
    return asyncio.run(host(config, lines, stdin))


async def host(config: WorkerConfig, lines: JsonLines, stdin: StdinLines) -> int:
    """Open the world, host the agents of `config` until told to stop, and close everything."""
    stop = asyncio.Event()
    told: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    follow_runtime(stdin, loop, told, stop, config.launch.worker.stop_timeout_s + EXIT_GRACE_S)
    try:
        ended = await live(config, lines, told, stop)
    except _EXPECTED as error:
        lines.write({"worker": config.index, "state": "failed", "reason": " ".join(str(error).split())})
        return EXIT_FAILED
    lines.write({"worker": config.index, "state": "ended", **ended})
    if stubborn := [task.get_name() for task in asyncio.all_tasks() if task.cancelling()]:
        # The loop would wait for them for ever; all that they could still do is done.
        logger.error("%s tasks take no notice of their end: %s", len(stubborn), ", ".join(sorted(stubborn)[:10]))
        os._exit(EXIT_OK)
    return EXIT_OK


async def live(config: WorkerConfig, lines: JsonLines, told: asyncio.Queue[str], stop: asyncio.Event) -> dict[str, Any]:
    """Everything between the first connection and the last record; returns what to report."""
    settings = config.launch.worker
    recorder = open_recorder(config)
    if recorder is not None:
        await asyncio.to_thread(recorder.start)
    try:
        client = ClientSettings(reconnect_timeout_s=settings.reconnect_timeout_s)
        async with connect(config.server, config.world, timeout_s=settings.connect_timeout_s, settings=client) as world:
            async with open_pipeline(config, world, recorder, lines) as pipeline:
                suspend_collector()
                ready = {"worker": config.index, "state": "ready", "agents": pipeline.agents, "pid": os.getpid()}
                lines.write({**ready, "revision": world.revision})
                async with obey(pipeline, told, lines), collect_now_and_then():
                    await wait_stop_or_failure(stop, pipeline.wait_failed())
            ended = describe_end(pipeline)
    finally:
        if recorder is not None:
            await asyncio.to_thread(recorder.close)
    return {**ended, **measure_usage()}


@asynccontextmanager
async def open_pipeline(
    config: WorkerConfig, world: World, recorder: Recorder | None, lines: JsonLines
) -> AsyncIterator[Pipeline]:
    """The pipeline with the parts of the config; at the end its parts are given back.

    Raises as `Pipeline.start` does.
    """
    launch = config.launch
    holder = f"{launch.node}.worker-{config.index:02d}"

    def lose(part: str, reason: str) -> None:
        lines.write({"lost": part, "reason": reason})

    owner = Owner(world, launch.run, holder, launch.worker.lease_ttl_s, lambda reason: pipeline.lose_all(reason))
    pipeline = Pipeline(config, world, recorder, Clock.system(), owner, lose)
    try:
        await owner.start()
        await pipeline.start()
        yield pipeline
    finally:
        if not await pipeline.stop() or not world.statistics().is_connected:
            await world.session.close(flush_timeout_s=0)  # nobody answers to what is left


@asynccontextmanager
async def obey(pipeline: Pipeline, told: asyncio.Queue[str], lines: JsonLines) -> AsyncIterator[None]:
    """Do what the daemon says while this is entered."""
    obeying = asyncio.create_task(CommandHandler(pipeline, lines).obey(told), name="worker commands")
    try:
        yield
    finally:
        obeying.cancel()
        await asyncio.gather(obeying, return_exceptions=True)


def describe_end(pipeline: Pipeline) -> dict[str, Any]:
    """What all turns came to."""
    records = pipeline.records
    return {
        "turns": {status.value: count for status, count in records.statuses.items()},
        "actions": records.actions_done,
        "prompt_tokens": records.prompt_tokens,
        "completion_tokens": records.completion_tokens,
        "frames": pipeline.frames,
        "ops": pipeline.ops,
        "stalls": pipeline.stalls.stalls,
    }


def open_recorder(config: WorkerConfig) -> Recorder | None:
    """The recorder of this worker; None if nothing is recorded."""
    launch = config.launch
    if launch.recording is None:
        return None
    return Recorder(launch.recording, run=launch.run, source=f"{launch.node}.worker-{config.index:02d}")


def suspend_collector() -> None:
    """No cyclic collection by the count of objects: going over a million agents is most of what they would cost.

    What is there now is never looked at again. Turns make no cycles of their own; what agents' code makes (errors with
    their tracebacks, classes) is found by `collect_now_and_then`.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


@asynccontextmanager
async def collect_now_and_then(every_s: float = COLLECT_EVERY_S) -> AsyncIterator[None]:
    """While this is entered, free the cycles among what was made since the last time; see `collect_some`."""

    async def collect() -> None:
        while True:
            await asyncio.sleep(every_s)
            collect_some()

    collecting = asyncio.create_task(collect(), name="worker collector")
    try:
        yield
    finally:
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)


def collect_some(objects_max: int = COLLECT_OBJECTS_MAX) -> None:
    """Free the cycles among young objects, if those are few enough that nobody waits for long; else leave them be.

    What is left, and what survives, is not looked at again: a worker that lives for weeks makes its cycles in between.
    """
    if gc.get_count()[0] <= objects_max:
        gc.collect(0)
    else:
        gc.freeze()


class StdinLines:
    """Lines of stdin, read without its buffer: a thread that waits in it would hold up the interpreter's end."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self) -> str | None:
        """The next line; None at the end."""
        while b"\n" not in self._rest:
            part = os.read(sys.stdin.fileno(), 65_536)
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def split(self, data: bytes) -> Iterator[str]:
        """The lines that are whole with what was read elsewhere."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return (line.decode(errors="replace") for line in whole)


def follow_runtime(
    stdin: StdinLines,
    loop: asyncio.AbstractEventLoop,
    told: asyncio.Queue[str],
    stop: asyncio.Event,
    grace_s: float,
) -> None:
    """Hand on the lines of stdin, and stop when it ends: it is the lifeline too."""

    def hear(data: bytes) -> None:
        for line in stdin.split(data):
            loop.call_soon_threadsafe(told.put_nowait, line)

    hear(b"")  # what came together with the first line
    hold_lifeline(sys.stdin.fileno(), lambda: loop.call_soon_threadsafe(stop.set), grace_s=grace_s, hear=hear)

"""One process that hosts agents: `python -m agent_runtime.worker`, started by the runtime and by nobody else.

    stdin    one line, the WorkerConfig; then it stays open. Its end means: the runtime is gone, stop.
    stdout   JSON lines: {"worker": i, "state": "ready" | "ended" | "failed", …}

SIGTERM stops it as well. SIGINT is the runtime's to handle: a terminal sends it to both.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from typing import Any

from ecumene.client import ClientSettings, EcumeneError, connect

from agent_runtime.llm import ModelError
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.output import JsonLines
from agent_runtime.pipeline import Pipeline
from agent_runtime.recording import Recorder, RecordingError
from agent_runtime.settings import WorkerConfig
from agent_runtime.usage import measure_usage

logger = logging.getLogger("ecumene.runtime")

# What a stop may take beyond its own time limit before the process ends itself.
EXIT_GRACE_S = 10.0
EXIT_OK, EXIT_FAILED = 0, 1
_EXPECTED = (AgentRuntimeError, EcumeneError, ModelError, RecordingError, OSError)


def main() -> int:
    """Host agents until told to stop; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    config = WorkerConfig.model_validate_json(sys.stdin.readline())
    lines = JsonLines()
    if config.launch.worker.uvloop:
        try:
            import uvloop

            return uvloop.run(host(config, lines))
        except ModuleNotFoundError:
            pass
    return asyncio.run(host(config, lines))


async def host(config: WorkerConfig, lines: JsonLines) -> int:
    """Open the world, host the agents of `config` until told to stop, and close everything."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    watch_stdin(loop, stop, config.launch.worker.stop_timeout_s + EXIT_GRACE_S)
    try:
        ended = await live(config, lines, stop)
    except _EXPECTED as error:
        lines.write({"worker": config.index, "state": "failed", "reason": " ".join(str(error).split())})
        return EXIT_FAILED
    lines.write({"worker": config.index, "state": "ended", **ended})
    return EXIT_OK


async def live(config: WorkerConfig, lines: JsonLines, stop: asyncio.Event) -> dict[str, Any]:
    """Everything between the first connection and the last record; returns what to report."""
    settings = config.launch.worker
    recorder = open_recorder(config)
    if recorder is not None:
        await asyncio.to_thread(recorder.start)
    try:
        client = ClientSettings(reconnect_timeout_s=settings.reconnect_timeout_s)
        async with connect(config.server, config.world, timeout_s=settings.connect_timeout_s, settings=client) as world:
            pipeline = Pipeline(config, world, recorder, Clock.system())
            try:
                await pipeline.start()
                suspend_collector()
                ready = {"worker": config.index, "state": "ready", "agents": pipeline.agents, "pid": os.getpid()}
                lines.write({**ready, "revision": world.revision})
                await wait_until(stop, pipeline)
            finally:
                await pipeline.stop()
            ledger, outbox = pipeline.ledger, pipeline.outbox
            ended = {
                "turns": {status.value: count for status, count in ledger.statuses.items()},
                "actions": ledger.actions_done,
                "prompt_tokens": ledger.prompt_tokens,
                "completion_tokens": ledger.completion_tokens,
                "frames": outbox.frames,
                "ops": outbox.ops,
            }
    finally:
        if recorder is not None:
            await asyncio.to_thread(recorder.close)
    return {**ended, **measure_usage()}


async def wait_until(stop: asyncio.Event, pipeline: Pipeline) -> None:
    """Wait for the stop; raises what ended a stage for good."""
    stopped = asyncio.create_task(stop.wait(), name="worker stop")
    failed = asyncio.create_task(pipeline.wait_failed(), name="worker failure")
    try:
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        stopped.cancel()
        failed.cancel()
        await asyncio.gather(stopped, failed, return_exceptions=True)


def open_recorder(config: WorkerConfig) -> Recorder | None:
    """The recorder of this worker; None if nothing is recorded."""
    launch = config.launch
    if launch.recording is None:
        return None
    return Recorder(launch.recording, run=launch.run, source=f"{launch.node}.worker-{config.index:02d}")


def suspend_collector() -> None:
    """No cyclic collection while agents live: going over a million of them is most of what they would cost.

    Turns make no cycles of their own; what agents' code makes stays until the worker ends.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


def watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, exit_after_s: float) -> None:
    """Stop when stdin ends, and end the process itself if the loop does not come to it in time.

    A thread: it notices the death of the runtime even while agents' code blocks the loop.
    """

    def read() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        try:
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:
            return
        threading.Event().wait(exit_after_s)
        os._exit(EXIT_FAILED)

    threading.Thread(target=read, name="worker stdin", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())

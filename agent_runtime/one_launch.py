"""One launch and its end: `ecumene runtime --spec FILE`. The run is its own; for nodes that share runs see `daemon`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from ecumene.client import ClientSettings, EcumeneError, World, connect

from agent_runtime.launching.agents import digest_populations
from agent_runtime.launching.workers import plan_workers
from agent_runtime.model.errors import LaunchError, WorkerEndedError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.clock_place import leave_clocks
from agent_runtime.ownership.runs import open_run
from agent_runtime.programs.output import JsonLines
from agent_runtime.programs.usage import measure_usage
from agent_runtime.settings import Launch, WorkerConfig
from agent_runtime.worker.farewell import Farewell
from agent_runtime.worker.process import WorkerProcess

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
_SUMMED = ("actions", "prompt_tokens", "completion_tokens", "frames", "ops")


async def run_launch(launch: Launch, server: str, world: str, parts: Sequence[Part], lines: JsonLines) -> int:
    """Begin the run in its world, or go on with it, and host it until a signal or a failure. Returns the exit code."""
    try:
        parts = await begin_launch(launch, server, world, parts)
        configs = plan_workers(launch, server, world, parts)
    except (LaunchError, EcumeneError) as error:
        reason = " ".join(str(error).split())
        lines.write({"state": "failed", "run": launch.run, "reason": reason})
        sys.stderr.write(f"ecumene runtime: {reason}\n")
        return EXIT_USAGE if isinstance(error, LaunchError) else EXIT_FAILED
    return await host_launch(launch, configs, lines, ClockLeave(launch, server, world, parts))


class ClockLeave:
    """Leaves the clocks of a run that was ended in order, so that none waits any more; of one that failed they do.

    Entered when the workers are told to stop: the world is looked for while they end, and one that is away is waited
    for as long as they wait for it, in all.
    """

    def __init__(self, launch: Launch, server: str, world: str, parts: Sequence[Part]) -> None:
        clocks = {group.name: group.clock for group in launch.groups if group.clock}
        self._timers = [(part.name, clocks[part.group]) for part in parts if part.group in clocks]
        self._launch = launch
        self._place = (server, world)
        self._world: World | None = None
        self._farewell = Farewell(self._is_there, 2 * launch.worker.stop_timeout_s)
        self._opening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._timers:
            await self._farewell.__aenter__()
            self._opening = asyncio.create_task(self._look_for_world(), name="world of clocks")
        return self

    async def leave(self) -> None:
        """The workers have ended: let the clocks go on. What cannot be done is told."""
        if self._opening is None:
            return
        run = self._launch.run
        try:
            await self._opening
            assert self._world is not None
            await self._farewell.wait(leave_clocks(self._world, run, self._timers))
        except (EcumeneError, TimeoutError) as error:
            sys.stderr.write(f"ecumene runtime: clocks may wait for run {run}: {' '.join(str(error).split())}\n")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opening is None:
            return
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        if self._world is not None:
            await self._world.session.close(flush_timeout_s=0)  # all that is wanted of it has been answered
        await self._farewell.__aexit__(kind, error, trace)

    async def _look_for_world(self) -> None:
        await self._farewell.wait(self._open())

    async def _open(self) -> None:
        self._world = await connect(*self._place, timeout_s=self._launch.worker.connect_timeout_s)

    def _is_there(self) -> bool:
        return self._world is not None and self._world.statistics().is_connected


async def begin_launch(launch: Launch, server: str, world: str, parts: Sequence[Part]) -> list[Part]:
    """Begin the launch's run in its world, or go on with it; returns the parts that it has there.

    Raises LaunchError (see `open_run`), EcumeneError.
    """
    settings = ClientSettings(reconnect_timeout_s=launch.worker.reconnect_timeout_s)
    async with connect(server, world, timeout_s=launch.worker.connect_timeout_s, settings=settings) as opened:
        return await open_run(opened, launch, parts, digest_populations(launch))


async def host_launch(launch: Launch, configs: Sequence[WorkerConfig], lines: JsonLines, leaving: ClockLeave) -> int:
    """Start the workers, wait for a signal or a failure, and end them all; in order, then their clocks are left."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    workers: list[WorkerProcess] = []
    failure: WorkerEndedError | None = None
    try:
        for config in configs:
            # One by one: whatever was started is stopped below, also when the next start fails.
            workers.append(await WorkerProcess.start(config))  # noqa: PERF401
        ready = await wait_ready(workers, stop)
        if ready:
            lines.write(describe_ready(launch, workers))
            await wait_stop(workers, stop)
    except WorkerEndedError as error:
        failure = error
    finally:
        timeout_s = launch.worker.stop_timeout_s
        async with leaving:
            await asyncio.gather(*(worker.stop(timeout_s) for worker in workers))
            # A worker may fail while it stops, too.
            failure = failure or next((worker.failure for worker in workers if worker.failure is not None), None)
            if failure is None:
                await leaving.leave()
    lines.write(describe_end(launch, workers, failure))
    if failure is not None:
        sys.stderr.write(f"ecumene runtime: {failure}\n")
        return EXIT_FAILED
    return EXIT_DONE


async def wait_ready(workers: Sequence[WorkerProcess], stop: asyncio.Event) -> bool:
    """True when all workers are ready, False when the stop came first. Raises WorkerEndedError."""
    pending = {asyncio.create_task(worker.wait_ready(), name=f"ready {worker.index}") for worker in workers}
    await _wait_first_failure(pending, stop)
    return not stop.is_set()


async def wait_stop(workers: Sequence[WorkerProcess], stop: asyncio.Event) -> None:
    """Until the stop. Raises WorkerEndedError as soon as a worker ends."""
    pending = {asyncio.create_task(worker.wait_ended(), name=f"ended {worker.index}") for worker in workers}
    await _wait_first_failure(pending, stop)


async def _wait_first_failure(pending: set[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Until all tasks are done, one fails (raised), or the stop comes. No task is left."""
    stopping = asyncio.create_task(stop.wait(), name="runtime stop")
    everything = {*pending, stopping}
    try:
        while pending and not stopping.done():
            done, _ = await asyncio.wait({*pending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            pending = pending - done
            for task in done - {stopping}:
                task.result()
    finally:
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)


def describe_ready(launch: Launch, workers: Sequence[WorkerProcess]) -> dict[str, Any]:
    """The readiness line."""
    told = [worker.ready for worker in workers]
    return {
        "state": "ready",
        "run": launch.run,
        "node": launch.node,
        "pid": os.getpid(),
        "workers": [line["pid"] for line in told],
        "agents": sum(line["agents"] for line in told),
        "revision": max(line["revision"] for line in told),
    }


def describe_end(launch: Launch, workers: Sequence[WorkerProcess], failure: WorkerEndedError | None) -> dict[str, Any]:
    """The last line: what all turns came to, and what they cost."""
    told = [worker.ended for worker in workers if worker.ended]
    turns: Counter[str] = Counter()
    for line in told:
        turns.update(line["turns"])
    own = measure_usage()
    return {
        "state": "failed" if failure is not None else "ended",
        "run": launch.run,
        "reason": str(failure) if failure is not None else None,
        "turns": dict(turns),
        **{name: sum(line[name] for line in told) for name in _SUMMED},
        "cpu_s": round(own["cpu_s"] + sum(line["cpu_s"] for line in told), 3),
        "rss_anon_bytes": own["rss_anon_bytes"] + sum(line["rss_anon_bytes"] for line in told),
        "workers": told,
    }

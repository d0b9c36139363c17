"""The program of a host: `python -m agent_runtime.workflows.host --server ADDR --world W --name N`.

stdout   {"state": "ready", …} when it takes calls; {"state": "ended" | "failed", …} at the end
exit     0 stopped as asked (SIGTERM, SIGINT, or the end of stdin with --with-parent), 1 failed, 2 wrong usage

A stop lets calls under way end, within --stop-timeout-s. A host whose lease was lost ends at once: others have taken it
for dead, and nothing that it writes has an effect.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ecumene.client import ClientSettings, EcumeneError, connect
from ecumene.client.records import PartNameError
from ecumene.lifeline import hold_lifeline
from ecumene.workflows.limits import StageLimits

from agent_runtime.model.clock import Clock
from agent_runtime.programs.output import JsonLines, take_stdout
from agent_runtime.programs.stopping import wait_stop_or_failure
from agent_runtime.programs.usage import measure_usage
from agent_runtime.recording import Recorder, RecordingError
from agent_runtime.workflows.hosting import Hosting
from agent_runtime.workflows.recording import CallCounts, CallObservers, CallRecords

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_GRACE_S = 5.0
"""What a stop may take beyond its own time before the process ends itself, functions that hang included."""


def main(argv: Sequence[str], lines: JsonLines | None = None) -> int:
    """Host actors until told to stop; returns the exit code."""
    arguments = parse_arguments(argv)
    lines = lines or JsonLines()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    sys.path[:0] = [str(path.resolve()) for path in arguments.path]
    for module in arguments.module:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the edge: a module is foreign code
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            sys.stderr.write(f"workflow host: cannot import {module!r}: {problem}\n")
            return EXIT_USAGE
    try:
        import uvloop

        return uvloop.run(host(arguments, lines))
    except ModuleNotFoundError:
        return asyncio.run(host(arguments, lines))


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command's arguments. Exits with 2 on wrong usage."""
    parser = argparse.ArgumentParser("agent_runtime.workflows.host", description="Host actors of workflows.")
    parser.add_argument("--server", required=True, help="address of the environment server, host:port")
    parser.add_argument("--world", default="main", help="world whose flows it serves (default: main)")
    parser.add_argument("--name", default=f"host-{os.getpid()}", help="name of this host in the world")
    parser.add_argument("--path", action="append", default=[], type=Path, help="folder with classes of actors")
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        help="module with actors; flows may name actors of these, and of installed packages that declare them",
    )
    parser.add_argument(
        "--any-module",
        action="store_true",
        help="flows may name any module that can be imported, which is then run: for worlds that only friends write to",
    )
    parser.add_argument("--recording", type=Path, help="folder in which calls are recorded as turns")
    parser.add_argument("--actors-max", type=int, default=StageLimits().actors_max, help="actors that it takes")
    parser.add_argument("--connect-timeout-s", type=float, default=10.0, help="it ends when it finds no server so long")
    parser.add_argument("--lease-ttl-s", type=float, default=5.0, help="a host that is silent so long is lost")
    parser.add_argument("--stop-timeout-s", type=float, default=30.0, help="a stop gives calls so long to end")
    parser.add_argument("--with-parent", action="store_true", help="stop when stdin ends")
    return parser.parse_args(list(argv))


async def host(arguments: argparse.Namespace, lines: JsonLines) -> int:
    """Connect, host actors until told to stop, and close everything."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if arguments.with_parent:
        grace_s = arguments.stop_timeout_s + EXIT_GRACE_S
        hold_lifeline(sys.stdin.fileno(), lambda: loop.call_soon_threadsafe(stop.set), grace_s=grace_s)
    counts = CallCounts()
    try:
        settings = ClientSettings(reconnect_timeout_s=60.0)
        connecting = connect(
            arguments.server, arguments.world, timeout_s=arguments.connect_timeout_s, settings=settings
        )
        async with connecting as world, AsyncExitStack() as records:
            limits = StageLimits(actors_max=arguments.actors_max)
            modules = None if arguments.any_module else arguments.module
            observers = CallObservers(counts)
            hosting = Hosting(world, arguments.name, observers, limits, random.Random(), arguments.lease_ttl_s, modules)
            if arguments.recording is not None:
                observers.add(await records.enter_async_context(open_records(arguments, hosting)))
            try:
                await hosting.start({"modules": arguments.module})
                lines.write({"state": "ready", "host": arguments.name, "pid": os.getpid(), "revision": world.revision})
                await wait_stop_or_failure(stop, hosting.failed)
                await hosting.stop(arguments.stop_timeout_s)
            finally:
                await hosting.close()
    except (EcumeneError, RecordingError, PartNameError, OSError) as error:
        lines.write({"state": "failed", "host": arguments.name, "reason": str(error), "calls": vars(counts)})
        return EXIT_FAILED
    lines.write({"state": "ended", "host": arguments.name, "calls": vars(counts), **measure_usage()})
    return EXIT_DONE


@asynccontextmanager
async def open_records(arguments: argparse.Namespace, hosting: Hosting) -> AsyncIterator[CallRecords]:
    """Records of a host, which ends with them. Raises RecordingError, PartNameError, OSError."""
    loop = asyncio.get_running_loop()

    def fail(error: RecordingError) -> None:
        loop.call_soon_threadsafe(hosting.fail, error)

    recorder = Recorder(arguments.recording, run="workflows", source=f"workflows-{arguments.name}", on_failure=fail)
    await asyncio.to_thread(recorder.start)
    kept = CallRecords(recorder, Clock.system(), hosting.fail)
    try:
        yield kept
    finally:
        await kept.close()


def run() -> None:
    """The program. Ends the process even when functions of actors hang in their threads."""
    code = main(sys.argv[1:], JsonLines(take_stdout()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()

"""`ecumene runtime --server ADDR`: a node that hosts what it is told; with `--spec FILE`, one launch and its end.

With --spec:
stdout   {"state": "ready", …} when all workers watch the world; {"state": "ended", …} at the end
exit     0 stopped as asked (SIGTERM, SIGINT), 1 failed, 2 the description cannot be run
Without: see `daemon`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecumene.client import EcumeneError

from agent_runtime.daemon import choose_name, run_daemon
from agent_runtime.launching import begin_launch, plan_parts, plan_workers
from agent_runtime.model.errors import LaunchError, WorkerEndedError
from agent_runtime.model.parts import Part
from agent_runtime.node.settings import AGENTS_PER_CORE, NodeSettings
from agent_runtime.output import JsonLines
from agent_runtime.rpc.service import is_loopback
from agent_runtime.settings import Launch, WorkerConfig, load_launch
from agent_runtime.usage import measure_usage
from agent_runtime.worker_process import WorkerProcess
from agent_runtime.workflows.host_process import HostSettings

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
NAME = re.compile(r"[a-z0-9][a-z0-9._]{0,39}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PORT_MAX = 65_535
_SUMMED = ("actions", "prompt_tokens", "completion_tokens", "frames", "ops")


def main(argv: Sequence[str]) -> int:
    """Run the daemon until it is told to stop; returns the exit code."""
    arguments = parse_arguments(argv)
    if arguments.spec is None:
        host, port = arguments.listen
        return asyncio.run(run_daemon(read_settings(arguments), host, port, JsonLines()))
    try:
        launch = load_launch(arguments.spec)
        if arguments.workers is not None:
            launch = launch.model_copy(update={"workers": arguments.workers})
        parts = plan_parts(launch)
    except LaunchError as error:
        sys.stderr.write(f"ecumene runtime: {error}\n")
        return EXIT_USAGE
    return asyncio.run(launch_node(launch, arguments.server, arguments.world, parts, JsonLines()))


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command's arguments. Exits with 2 on wrong usage."""
    parser = argparse.ArgumentParser("ecumene runtime", description="Host agents of a world on this node.")
    parser.add_argument("--server", required=True, help="address of the environment server, host:port")
    parser.add_argument("--world", default="main", help="world that the agents live in (default: main)")
    parser.add_argument("--workers", type=_positive, help="worker processes of a run (default: one a core)")
    parser.add_argument("--spec", type=Path, help="one launch description, a JSON file: host it, and end with it")
    node = parser.add_argument_group("a node that is told what to host (without --spec)")
    node.add_argument("--name", default=choose_name(), help="unique among the nodes of the world (default: the host's)")
    node.add_argument(
        "--listen",
        type=_listen,
        default=("127.0.0.1", 0),
        metavar="ADDRESS",
        help="host:port; port 0 takes a free one, told in the readiness line (default: 127.0.0.1:0)",
    )
    node.add_argument("--insecure", action="store_true", help="allow an address that other machines reach, without TLS")
    node.add_argument("--label", type=_label, action="append", default=[], metavar="KEY=VALUE", help="for placement")
    node.add_argument("--capacity", type=_positive, help=f"agents at most (default: {AGENTS_PER_CORE:,} a core)")
    node.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="folder for populations")
    node.add_argument(
        "--secret",
        type=_secret,
        action="append",
        default=[],
        metavar="NAME",
        help="a variable, or the absolute path of a file, that launches may name as the key of a model; no others",
    )
    node.add_argument("--records", type=Path, help="the folder where launches may record and cache (default: nowhere)")
    flows = parser.add_argument_group("workflows: with any of these a node hosts their actors, too (without --spec)")
    flows.add_argument("--workflow-module", action="append", default=[], metavar="MODULE", help="module with actors")
    flows.add_argument("--workflow-path", action="append", default=[], type=Path, metavar="FOLDER", help="of modules")
    flows.add_argument("--workflow-any-module", action="store_true", help="whatever a flow names is imported and run")
    flows.add_argument("--workflow-recording", type=Path, metavar="FOLDER", help="record their calls as turns")
    arguments = parser.parse_args(list(argv))
    if arguments.spec is not None and read_workflows(arguments) is not None:
        parser.error("--spec: a launch hosts no workflows")
    if not (arguments.insecure or is_loopback(arguments.listen[0])):
        parser.error(f"--listen: {arguments.listen[0]} can be reached from other machines: give --insecure for that")
    if not NAME.fullmatch(arguments.name):
        parser.error("--name: a-z and 0-9 first, then also . and _, at most 40")
    return arguments


def read_settings(arguments: argparse.Namespace) -> NodeSettings:
    """What the node is, from its arguments."""
    cores = os.cpu_count() or 1
    return NodeSettings(
        server=arguments.server,
        world=arguments.world,
        name=arguments.name,
        scratch=arguments.scratch / f"ecumene-runtime-{arguments.world}-{arguments.name}",
        labels=dict(arguments.label),
        capacity=arguments.capacity or AGENTS_PER_CORE * cores,
        workers=arguments.workers or cores,
        secrets=frozenset(arguments.secret),
        records=arguments.records,
        workflows=read_workflows(arguments),
    )


def read_workflows(arguments: argparse.Namespace) -> HostSettings | None:
    """What the node's host of workflows is; None = none is asked for."""
    modules, paths = arguments.workflow_module, arguments.workflow_path
    if not (modules or paths or arguments.workflow_any_module or arguments.workflow_recording):
        return None
    return HostSettings(modules, arguments.workflow_any_module, paths, arguments.workflow_recording)


async def launch_node(launch: Launch, server: str, world: str, parts: Sequence[Part], lines: JsonLines) -> int:
    """Begin the run in its world, or go on with it, and run the node."""
    try:
        parts = await begin_launch(launch, server, world, parts)
        configs = plan_workers(launch, server, world, parts)
    except (LaunchError, EcumeneError) as error:
        reason = " ".join(str(error).split())
        lines.write({"state": "failed", "run": launch.run, "reason": reason})
        sys.stderr.write(f"ecumene runtime: {reason}\n")
        return EXIT_USAGE if isinstance(error, LaunchError) else EXIT_FAILED
    return await run_node(launch, configs, lines)


async def run_node(launch: Launch, configs: Sequence[WorkerConfig], lines: JsonLines) -> int:
    """Start the workers, wait for a signal or a failure, and end them all."""
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
        await asyncio.gather(*(worker.stop(timeout_s) for worker in workers))
    # A worker may fail while it stops, too.
    failure = failure or next((worker.failure for worker in workers if worker.failure is not None), None)
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


def _listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no host:port")
    return host.strip("[]"), int(port)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no KEY=VALUE")
    return name, value


def _secret(text: str) -> str:
    if not VARIABLE.fullmatch(text) and not Path(text).is_absolute():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a variable, and no absolute path")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number

"""`ecumene runtime`: a node that hosts what it is told; with `--spec FILE`, one launch and its end.

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
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ecumene.client import InvalidFieldError
from ecumene.client.addresses import DEFAULT_SERVER, SERVER_VARIABLE, find_address

from agent_runtime.daemon import choose_name, run_daemon
from agent_runtime.launching.checking import check_launch
from agent_runtime.launching.workers import plan_launch
from agent_runtime.model.errors import LaunchError
from agent_runtime.node.settings import AGENTS_PER_CORE, NodeSettings
from agent_runtime.one_launch import run_launch
from agent_runtime.programs.output import JsonLines, take_stdout
from agent_runtime.rpc.service import is_loopback
from agent_runtime.settings import load_launch
from agent_runtime.workflows.host_process import HostSettings

EXIT_USAGE = 2
NAME = re.compile(r"[a-z0-9][a-z0-9._]{0,39}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PORT_MAX = 65_535


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
        if arguments.check:
            JsonLines(take_stdout()).write(check_launch(launch))
            return 0
        parts = plan_launch(launch)
    except LaunchError as error:
        sys.stderr.write(f"ecumene runtime: {error}\n")
        return EXIT_USAGE
    return asyncio.run(run_launch(launch, arguments.server, arguments.world, parts, JsonLines()))


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command's arguments. Exits with 2 on wrong usage."""
    parser = argparse.ArgumentParser("ecumene runtime", description="Host agents of a world on this node.")
    parser.add_argument(
        "--server",
        help=f"address of the environment server, host:port (default: {SERVER_VARIABLE}, or {DEFAULT_SERVER})",
    )
    parser.add_argument("--world", default="main", help="world that the agents live in (default: main)")
    parser.add_argument("--workers", type=_positive, help="worker processes of a run (default: one a core)")
    parser.add_argument("--spec", type=Path, help="one launch description, a JSON file: host it, and end with it")
    parser.add_argument(
        "--check", action="store_true", help="with --spec: say in JSON what of it cannot be run here; start nothing"
    )
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
    node.add_argument(
        "--tell-causes",
        action="store_true",
        help="tell whoever launches what a module said that could not be imported (default: the log alone)",
    )
    flows = parser.add_argument_group("workflows: with any of these a node hosts their actors, too (without --spec)")
    flows.add_argument("--workflow-module", action="append", default=[], metavar="MODULE", help="module with actors")
    flows.add_argument("--workflow-path", action="append", default=[], type=Path, metavar="FOLDER", help="of modules")
    flows.add_argument("--workflow-any-module", action="store_true", help="whatever a flow names is imported and run")
    flows.add_argument("--workflow-recording", type=Path, metavar="FOLDER", help="record their calls as turns")
    arguments = parser.parse_args(list(argv))
    try:
        arguments.server = find_address(arguments.server)
    except InvalidFieldError as error:
        parser.error(f"--server: {error}")
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
        scratch=arguments.scratch.absolute() / f"ecumene-runtime-{arguments.world}-{arguments.name}",
        labels=dict(arguments.label),
        capacity=arguments.capacity or AGENTS_PER_CORE * cores,
        workers=arguments.workers or cores,
        secrets=frozenset(arguments.secret),
        records=arguments.records,
        workflows=read_workflows(arguments),
        tells_causes=arguments.tell_causes,
    )


def read_workflows(arguments: argparse.Namespace) -> HostSettings | None:
    """What the node's host of workflows is; None = none is asked for."""
    modules, paths = arguments.workflow_module, arguments.workflow_path
    if not (modules or paths or arguments.workflow_any_module or arguments.workflow_recording):
        return None
    return HostSettings(modules, arguments.workflow_any_module, paths, arguments.workflow_recording)


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

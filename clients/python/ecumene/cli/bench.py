"""`ecumene bench NAME`: measure this machine, each figure beside its bare limit and other systems."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ecumene.bench.clock_bench import bench_clock
from ecumene.bench.document import REPORTED_MARK, show_figure, show_peers, write_page
from ecumene.bench.env_bench import bench_env
from ecumene.bench.lifecycle_bench import bench_lifecycle
from ecumene.bench.llm_bench import bench_llm
from ecumene.bench.llm_questions import Asked
from ecumene.bench.message_bench import bench_message
from ecumene.bench.restart_bench import bench_restart
from ecumene.bench.results import Report, Reported, Result
from ecumene.bench.round_bench import AGENTS, bench_round
from ecumene.bench.space_bench import bench_space
from ecumene.bench.town_bench import bench_town
from ecumene.bench.watch_bench import bench_watch
from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError, Interrupted
from ecumene.cli.tables import print_json, print_table

QuickOption = Annotated[bool, typer.Option("--quick", help="One small sample each: shows that it works.")]
PeersOption = Annotated[
    bool, typer.Option("--peers/--no-peers", help="Measure other systems too, and install what is missing of them.")
]

bench = typer.Typer(name="bench", help="Measure, beside the bare limit of this machine.", no_args_is_help=True)


@bench.command("env")
def env(peers: PeersOption = True, as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """Durable ops a second through the SDK, beside a lean engine, etcd and Redis with the same load."""
    _show(bench_env(is_quick=quick, with_peers=peers, note=_note), as_json=as_json)


@bench.command("watch")
def watch(as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """Events that watches deliver a second, and what they cost those who write."""
    _show(bench_watch(is_quick=quick, note=_note), as_json=as_json)


@bench.command("message")
def message(peers: PeersOption = True, as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """Messages from agent to agent through a room, beside AgentScope."""
    _show(bench_message(is_quick=quick, with_peers=peers, note=_note), as_json=as_json)


@bench.command("restart")
def restart(as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """How long a world takes to come back, and what its size costs the ops on it."""
    _show(bench_restart(is_quick=quick, note=_note), as_json=as_json)


@bench.command("town")
def town(as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """A year of a town of a thousand residents, whose clock goes on as soon as nobody has anything left to do."""
    _show(bench_town(is_quick=quick, note=_note), as_json=as_json)


@bench.command("space")
def space(peers: PeersOption = True, as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """Moves, events of regions and of who meets whom, questions for who is near; models beside the same in Mesa."""
    _show(bench_space(is_quick=quick, with_peers=peers, note=_note), as_json=as_json)


@bench.command("clock")
def clock(as_json: JsonOption = False, quick: QuickOption = False) -> None:
    """What timers cost that fire and that wait, how late they are, and what a clock costs those who do not ask."""
    _show(bench_clock(is_quick=quick, note=_note), as_json=as_json)


@bench.command("round")
def round_(
    agents: Annotated[int, typer.Option(help="How many agents report.", min=1)] = AGENTS,
    limit: Annotated[bool, typer.Option("--limit/--no-limit", help="Measure the lean sleepers too.")] = True,
    cost: Annotated[bool, typer.Option("--cost/--no-cost", help="Also smaller rounds, to see how cost grows.")] = True,
    peers: PeersOption = True,
    as_json: JsonOption = False,
    quick: QuickOption = False,
) -> None:
    """One round of the demo's game: all agents wake, think for one second, and report into a gate."""
    work = bench_round(agents=agents, with_limit=limit, with_cost=cost, with_peers=peers, is_quick=quick, note=_note)
    _show(work, as_json=as_json)


@bench.command("llm")
def llm(
    server: Annotated[
        bool, typer.Option("--server/--no-server", help="Measure against the packaged model's server too.")
    ] = True,
    endpoint: Annotated[
        str, typer.Option(help="Measure against this server of the OpenAI protocol alone.", metavar="URL")
    ] = "",
    model: Annotated[str, typer.Option(help="The model that the endpoint serves.")] = "",
    api_key_file: Annotated[str, typer.Option(help="A file that holds the endpoint's key.", metavar="FILE")] = "",
    at_a_time: Annotated[int, typer.Option(help="Questions under way at the endpoint.", min=1)] = 16,
    questions: Annotated[int | None, typer.Option(help="Questions a sample at the endpoint.", min=1)] = None,
    tokens_max: Annotated[int, typer.Option(help="Tokens of an answer of the endpoint, at most.", min=1)] = 64,
    as_json: JsonOption = False,
    quick: QuickOption = False,
) -> None:
    """What a runtime's gateway takes from a model, beside a bare load generator: calls a second, tokens a second."""
    asked = None
    if endpoint:
        if not model:
            raise CliError("--endpoint needs --model: the name of what it serves")
        asked = Asked(endpoint.rstrip("/"), model, api_key_file, tokens_max=tokens_max, at_a_time=at_a_time)
    work = bench_llm(is_quick=quick, note=_note, with_server=server, asked=asked, questions=questions)
    _show(work, as_json=as_json)


@bench.command("lifecycle")
def lifecycle(
    agents: Annotated[int, typer.Option(help="How many agents live.", min=1)] = AGENTS,
    as_json: JsonOption = False,
    quick: QuickOption = False,
) -> None:
    """How fast agents are launched on a node, stopped and cleaned up, and what is left of them."""
    _show(bench_lifecycle(agents=agents, is_quick=quick, note=_note), as_json=as_json)


@bench.command("all")
def all_(
    out: Annotated[Path, typer.Option(help="Page to write; its plots go beside it.", metavar="FILE")],
    agents: Annotated[int, typer.Option(help="How many agents report.", min=1)] = AGENTS,
    peers: PeersOption = True,
    quick: QuickOption = False,
) -> None:
    """All benchmarks, shown and written as a page."""
    reports: list[Report] = []
    rounds = partial(bench_round, agents=agents, with_limit=True, with_cost=True, with_peers=peers)
    lives = partial(bench_lifecycle, agents=agents)
    envs, messages, spaces = (partial(one, with_peers=peers) for one in (bench_env, bench_message, bench_space))
    first = (envs, bench_watch, messages, bench_restart)
    for measure in (*first, spaces, bench_clock, bench_town, bench_llm, lives, rounds):
        reports.append(_show(measure(is_quick=quick, note=_note), as_json=False))
        try:
            # After each: what was measured stays when a later one fails.
            write_page(reports, out)
        except OSError as error:
            raise CliError(f"cannot write the page: {error}") from error


def _show(work: Coroutine[Any, Any, Report], *, as_json: bool) -> Report:
    try:
        report = asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted from None
    if as_json:
        print_json(report.to_document())
        return report
    machine = report.machine
    kept = ("python", "grpcio", "protobuf", "lmdb", "loop")
    print(f"{machine['cpu']}, {machine['cores']} cores, " + ", ".join(f"{name} {machine[name]}" for name in kept))
    columns = ("name", "value", "unit", "limit", "of limit", "peers", "goal", "met", "cpu µs/op (server, client)")
    rows = [*map(_make_row, report.results), *map(_make_reported_row, report.reported)]
    print_table(columns, rows, title=f"bench {report.bench}")
    return report


def _make_row(result: Result) -> list[object]:
    share = None if result.share is None else f"{result.share:.0%}"
    goal = result.goal.describe() if result.goal else None
    server, client = result.details.get("server_us_op"), result.details.get("client_us_op")
    cpu = None if server is None or client is None else f"{server:.2f}, {client:.2f}"
    limit = None if result.limit is None else show_figure(result.limit)
    met = None if result.goal is None else "no: " + ", ".join(result.missed) if result.missed else "yes"
    value, peers = show_figure(result.value), show_peers(result)
    return [result.name, value, result.unit, limit, share, peers, goal, met, cpu]


def _make_reported_row(one: Reported) -> list[object]:
    value = show_figure(one.value)
    return [one.name, value, one.unit, None, None, f"{REPORTED_MARK}: {one.setting}", None, None, None]


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

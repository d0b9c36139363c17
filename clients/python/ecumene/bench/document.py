"""Reports as a page: which goals were reached, a table for each benchmark, and plots beside limits and peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ecumene.bench.plots import draw_peers, draw_shares
from ecumene.bench.results import Report, Reported, Result

SHARES_PLOT = "benchmarks.svg"
PEERS_PLOT = "benchmarks-peers.svg"
REPORTED_MARK = "reported in the paper, other machines"
INTRODUCTION = """\
# Benchmarks

Written by `make bench`; not edited by hand. Each figure is the median of its samples. Goals are the design's, for two
free cores; the load of the machine when the run began stands with it. CPU is user and system time.

*Limit* is a bare piece without features that does the same work, measured in the same run, in turn with the samples:

* `env`, `deliveries`: the lean engine of `ecumene.bench.limits` (frames over a gRPC stream, versions, producers, an
  exact sum, a columnar log record, one fsync a group, events to one reader). `ops_held`: arithmetic (n operations of
  10 ms at a time); `server_cores` says how much CPU the server used a second.
* `publish_us_10k_watches`: the same without watches. `grow_ratio` is over the lean engine's own ratio.
* `round`: as many tasks that sleep for a second and report to the lean engine.
* `gateway_calls`, `server_tokens`: a bare load generator, which sends the same bytes and reads the same answers, as
  many at a time: one aiohttp session, without limits, time-outs, retries, types, sums or records. The first is against
  an endpoint that answers at once, so that only the client counts. The second is against a real server, in tokens that
  it has written, as its replies count them; `llama.cpp`, which serves the packaged model, has no benchmark of its own
  in the package that brings it.

*Peers* are other systems with the same work, measured in the same run, each with its own client:

* `etcd`: one member, every put synced; 64 clients with a connection and one put under way each, through grpc.aio with
  messages put together by hand, which costs less than any client library and is what our unary calls go through.
* `redis_py`, `redis_hiredis`: `appendonly yes`, `appendfsync always`; pipelines of 1,000 SETs from one Python process,
  by redis-py as its users write it, and by bare sockets with hiredis, eight connections, 64 pipelines under way: the
  most that Python can ask of a Redis.
* `agentscope_local`, `agentscope_rpc`: AgentScope 0.1.1, one agent speaking into a hub, the others in the same process
  or in one agent server on loopback. It keeps messages in memory, and looks through them for each new one, so that its
  rate falls with their number (here 2,000 for one listener, 200 for 1,000); ours are on disk before they are heard.
* `agentscope_rpc_1k`, `_5k`: AgentScope 0.1.1, distributed agents in two and four agent servers on loopback, which have
  a thread for each agent of theirs; the script calls all and reads what they return. `agentscope_threads_1k`, `_5k`:
  its agents in one process, each called from a thread of its own. Nothing of theirs is durable or recorded; servers,
  connections and agents exist before the clock starts.
* `bare_cells`: entries in cells of a Python dict that is cut for these very distances, in one process, without server,
  checks, log or events: what the work itself costs in Python. Ours are in CPU of the server, through frames, on the
  disk, events included; as many events must have been told as the bare cells know of crossings and meetings.
* `bare_heap`, `asyncio_alarms`: when which timer is due, in a heap and a dict, and alarms of asyncio in the process
  that hears them. Each of our firings is an event in a revision of its own, on the disk; `jumps` are an answer of all
  participants, a firing and a sync each, one after the other.
* `rtree`, `scipy_each`, `scipy_batch`: libspatialindex through Rtree; scipy's cKDTree asked for one point after the
  other, and made anew and asked for all at once. In one process, on a plane that is no torus, without moves but those
  of `rtree`.
* `mesa`: Mesa 3.3.1 with the same models from the same beginning to the same end, which is checked: birds that flock,
  and a town that segregates, all at once in each step. Mesa: an object an agent, with rules of its own, numpy for a
  bird's vectors, plain Python in the town; one process, nothing kept. Ours: a step is one question for everybody's
  neighbours, rules over whole numpy arrays in the client, and one block of moves, each a revision on the disk; CPU of
  client and server together. `mesa_ratio` is Mesa's CPU over ours: it grows with a flock, of which Mesa looks at all
  for each, and stays near 1 in a town, whose rule costs Mesa less than it takes to tell somebody's neighbours to
  another process (docs/decisions/0014). `knn` and `radius` are single questions in frames of 500, `neighbours` and
  `knn_table` a row of a table, many in one question; sets and plain moves take turns. `arrays`: the same flock as numpy
  arrays over a cKDTree, which is what it costs a program that needs no world.
* `asyncio`: as many tasks as there are agents (a million at most) that sleep for a second and put a number into a dict.

Rows marked as reported in the paper are its own figures on its own machines (Very Large-Scale Multi-Agent Simulation in
AgentScope, arXiv 2407.17789v2). They are part of no goal.

The ratios of 99th percentiles are of writes one after the other, beside an operation that holds another key for a
second, and while the changes of 300,000 of 1,000,000 entries are being saved, over those of the same server when it
has nothing else to do, in turn.

A peer that could not be measured is named with the reason, and the part of a goal that rests on it is left out.
"""


def write_page(reports: Sequence[Report], path: Path) -> None:
    """Write the page, and the plots beside it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_shares(reports, path.parent / SHARES_PLOT)
    draw_peers(reports, path.parent / PEERS_PLOT)
    path.write_text(render_page(reports), encoding="utf-8")


def render_page(reports: Sequence[Report]) -> str:
    """The page as Markdown."""
    results = [result for report in reports for result in report.results]
    parts = [INTRODUCTION, render_goals(reports)]
    if any(result.share is not None for result in results):
        parts.append(f"![Figures as shares of their limits]({SHARES_PLOT})\n")
    if any(result.peers for result in results):
        parts.append(f"![Figures beside those of other systems]({PEERS_PLOT})\n")
    parts += [render_report(report) for report in reports]
    return "\n".join(parts)


def render_goals(reports: Sequence[Report]) -> str:
    """Every goal, and whether it was reached."""
    rows = []
    for report in reports:
        for result in report.results:
            if result.goal is not None:
                reached = "yes" if not result.missed else f"**no**: {', '.join(result.missed)}"
                value = f"{show_figure(result.value)} {_show_unit(result)}".strip()
                left_out = [f"{name} absent" for name in result.goal.peers_at_least if name in result.absent_peers]
                goal = ", ".join([result.goal.describe(), *left_out])
                rows.append((f"`{report.bench}`", f"`{result.name}`", goal, value, reached))
    reached_count = sum(row[-1] == "yes" for row in rows)
    quick = " A quick run: small loads, for the form only." if any(report.is_quick for report in reports) else ""
    return "\n".join(
        [
            "## Goals",
            "",
            f"{reached_count} of {len(rows)} were reached in this run.{quick}",
            "",
            "| bench | name | goal | value | reached |",
            "|---|---|---|---:|---|",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
        ]
    )


def render_report(report: Report) -> str:
    """One benchmark as a section."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items() if value is not None)
    lines = [
        f"## {report.bench}" + (" (quick: small loads, for the form only)" if report.is_quick else ""),
        "",
        f"{machine}.",
        "",
        "| name | value | unit | limit | of limit | peers | goal | met | samples |",
        "|---|---:|---|---:|---:|---|---|---|---|",
        *(_render_row(result) for result in report.results),
        *(_render_reported(one) for one in report.reported),
        "",
        "| name | details |",
        "|---|---|",
        *(_render_details(result) for result in report.results if result.details),
        "",
    ]
    return "\n".join(lines)


def show_figure(value: float) -> str:
    """A figure with as many digits as it is worth."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def show_peers(result: Result) -> str:
    """Figures of peers, and the reasons of those that are absent."""
    shown = [f"{name} {show_figure(value)}" for name, value in result.peers.items()]
    return ", ".join([*shown, *(f"{name} absent: {reason}" for name, reason in result.absent_peers.items())])


def _render_row(result: Result) -> str:
    met = {None: "", True: "yes", False: "**no**"}[result.meets_goal]
    cells = (
        f"`{result.name}`",
        show_figure(result.value),
        _show_unit(result),
        "" if result.limit is None else show_figure(result.limit),
        "" if result.share is None else f"{result.share:.0%}",
        show_peers(result),
        "" if result.goal is None else result.goal.describe(),
        met,
        ", ".join(map(show_figure, result.samples)),
    )
    return f"| {' | '.join(cells)} |"


def _render_reported(one: Reported) -> str:
    """In the same table, and told apart from what was measured here."""
    cells = (f"`{one.name}`, {REPORTED_MARK}", show_figure(one.value), one.unit, "", "", one.setting, "", "", "")
    return f"| {' | '.join(cells)} |"


def _show_unit(result: Result) -> str:
    return "" if result.unit == "1" else result.unit


def _render_details(result: Result) -> str:
    details = ", ".join(f"{name} {show_figure(value)}" for name, value in result.details.items())
    return f"| `{result.name}` | {details} |"

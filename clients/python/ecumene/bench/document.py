"""Reports as a page: a table for each benchmark, and a plot of what the figures are of their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ecumene.bench.results import Report, Result

PLOT_NAME = "benchmarks.svg"
INTRODUCTION = """\
# Benchmarks

Written by `make bench`; not edited by hand. Each figure is the median of its samples. *Limit* is a bare piece without
features that does the same work, measured in the same run, in turn with the samples: for `env` the lean engine of
`ecumene.bench.limits` (frames over a gRPC stream, versions, producers, an exact sum, a columnar log record and one
fsync a group), for `ops_held` arithmetic (n operations of 10 ms at a time), for `round` as many tasks that sleep for a
second and report to the lean engine. CPU is user and system time. Goals are the design's, for two free cores; the load
of the machine when the run began stands with it.
"""


def write_page(reports: Sequence[Report], path: Path) -> None:
    """Write the page, and the plot beside it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_shares(reports, path.parent / PLOT_NAME)
    path.write_text(render_page(reports), encoding="utf-8")


def render_page(reports: Sequence[Report]) -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION]
    if any(result.share is not None for report in reports for result in report.results):
        parts.append(f"![Figures as shares of their limits]({PLOT_NAME})\n")
    parts += [render_report(report) for report in reports]
    return "\n".join(parts)


def render_report(report: Report) -> str:
    """One benchmark as a section."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items() if value is not None)
    lines = [
        f"## {report.bench}" + (" (quick: small loads, for the form only)" if report.is_quick else ""),
        "",
        f"{machine}.",
        "",
        "| name | value | unit | limit | of limit | goal | met | samples |",
        "|---|---:|---|---:|---:|---|---|---|",
        *(_render_row(result) for result in report.results),
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


def draw_shares(reports: Sequence[Report], path: Path) -> None:
    """Bars: each figure as a share of its limit, where it has one. Raises OSError."""
    shares = [
        (f"{report.bench}: {result.name}", result.share)
        for report in reports
        for result in report.results
        if result.share is not None
    ]
    if not shares:
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "ecumene"}):
        figure = Figure(figsize=(8, 0.34 * len(shares) + 0.9), layout="constrained")
        axes = figure.subplots()
        names, values = zip(*reversed(shares), strict=True)
        axes.barh(names, values, color="#4878a8")
        axes.axvline(1.0, color="#444444", linewidth=1)
        axes.set_xlabel("value / limit (for times and memory, less is better)")
        figure.savefig(path, format="svg", metadata={"Date": None})


def _render_row(result: Result) -> str:
    met = {None: "", True: "yes", False: "**no**"}[result.meets_goal]
    cells = (
        f"`{result.name}`",
        show_figure(result.value),
        result.unit,
        "" if result.limit is None else show_figure(result.limit),
        "" if result.share is None else f"{result.share:.0%}",
        "" if result.goal is None else result.goal.describe(),
        met,
        ", ".join(map(show_figure, result.samples)),
    )
    return f"| {' | '.join(cells)} |"


def _render_details(result: Result) -> str:
    details = ", ".join(f"{name} {show_figure(value)}" for name, value in result.details.items())
    return f"| `{result.name}` | {details} |"

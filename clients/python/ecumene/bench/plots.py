"""Plots of reports: figures as shares of their limits, and beside other systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecumene.bench.results import Report, Result

OURS = "#4878a8"
LINE = "#444444"
PEERS = ("#c87137", "#8a8a8a", "#b5a642", "#6a9a5b", "#8d6aa8")
GAP = 0.6


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
    figure, axes = _make_figure(len(shares))
    names, values = zip(*reversed(shares), strict=True)
    axes.barh(names, values, color=OURS)
    axes.axvline(1.0, color=LINE, linewidth=1)
    axes.set_xlabel("value / limit (for times and memory, less is better)")
    _save(figure, path)


def draw_peers(reports: Sequence[Report], path: Path) -> None:
    """Bars on a scale of powers of ten: each figure that has peers, and theirs below it. Raises OSError."""
    beside: list[Result] = [result for report in reports for result in report.results if result.peers]
    if not beside:
        return
    names = list(dict.fromkeys(name for result in beside for name in result.peers))
    colours = dict(zip(names, PEERS * len(names), strict=False))
    bars: list[tuple[str, float, str]] = []
    places: list[float] = []
    for group, result in enumerate(beside):
        ours = (f"{result.name}, {result.unit}", result.value, OURS)
        for bar in (ours, *((name, value, colours[name]) for name, value in result.peers.items())):
            places.append(-len(bars) - GAP * group)
            bars.append(bar)
    figure, axes = _make_figure(len(bars) + round(GAP * len(beside)))
    axes.barh(places, [value for _, value, _ in bars], color=[colour for *_, colour in bars])
    axes.set_yticks(places, [name for name, *_ in bars])
    for place, (_, value, _) in zip(places, bars, strict=True):
        axes.annotate(f" {value:,.4g}" if value < 1000 else f" {value:,.0f}", (value, place), va="center", fontsize=8)
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.02)
    axes.set_xlabel("for latencies, less is better")
    _save(figure, path)


def _make_figure(bars: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.34 * bars + 0.9), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: Path) -> None:
    import matplotlib as mpl

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "ecumene"}):
        figure.savefig(path, format="svg", metadata={"Date": None})

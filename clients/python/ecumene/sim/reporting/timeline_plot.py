"""A picture of when turns began, and which of them failed."""

from __future__ import annotations

from typing import IO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ecumene.sim.reporting.overview import Overview
from ecumene.sim.reporting.plot import style_axes
from ecumene.sim.reporting.theme import Theme

DPI = 100


def draw_timeline(target: IO[bytes], overview: Overview, theme: Theme) -> None:
    """Write an SVG of 1200 × 240 pixels; keeps no state between calls."""
    figure = Figure(figsize=(12, 2.4), dpi=DPI, facecolor=theme.page, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    edges = overview.starts_s
    axes.stairs(overview.acted, edges, fill=True, color=theme.colours[0], label="acted")
    together = overview.acted + overview.failed
    axes.stairs(together, edges, baseline=overview.acted, fill=True, color=theme.failed, label="did not act")
    style_axes(axes, theme)
    axes.set_xlabel("seconds since the first turn", color=theme.ink)
    axes.set_ylabel("turns begun", color=theme.ink)
    axes.set_xlim(0, edges[-1])
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), labelcolor=theme.ink)
    figure.savefig(target, dpi=DPI, format="svg", facecolor=theme.page, metadata={"Date": None})

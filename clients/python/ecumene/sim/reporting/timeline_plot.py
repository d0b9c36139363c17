"""A picture of when turns began, and which of them failed."""

from __future__ import annotations

from typing import IO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ecumene.sim.reporting.overview import Overview

DPI = 100
ACTED, FAILED = "#0072B2", "#D55E00"


def draw_timeline(target: IO[bytes], overview: Overview) -> None:
    """Write a PNG of 1200 × 300 pixels; keeps no state between calls."""
    figure = Figure(figsize=(12, 3), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    edges = overview.starts_s
    axes.stairs(overview.acted, edges, fill=True, color=ACTED, label="acted")
    axes.stairs(
        overview.acted + overview.failed, edges, baseline=overview.acted, fill=True, color=FAILED, label="failed"
    )
    axes.set_xlabel("seconds since the first turn")
    axes.set_ylabel("turns begun")
    axes.set_xlim(0, edges[-1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    figure.savefig(target, dpi=DPI, format="png")

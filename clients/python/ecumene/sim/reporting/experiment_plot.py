"""One picture of an experiment of one's own: a panel for each figure, by round."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ecumene.sim.reporting.experiment import ExperimentReport
from ecumene.sim.reporting.plot import style_axes
from ecumene.sim.reporting.theme import LIGHT, Theme

DPI = 100
WIDTH_IN, PANEL_IN, HEAD_IN = 12.0, 2.6, 0.9
PANELS_MAX = 8
COLUMNS = 2
MARKED_ROUNDS_MAX = 40


def draw_figures(target: Path | IO[bytes], report: ExperimentReport, theme: Theme | None = None) -> None:
    """Draw the first eight figures: a PNG with its title, 1200 pixels wide, or in the colours of a page as SVG.

    Keeps no state between calls. Raises OSError.
    """
    colours = theme or LIGHT
    names = report.names[:PANELS_MAX]
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    head = HEAD_IN if theme is None else 0.0
    height = head + PANEL_IN * rows
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DPI, facecolor=colours.page)
    FigureCanvasAgg(figure)
    title = str(report.manifest.spec.get("name", report.manifest.run))
    if theme is None:
        agents = "1 agent" if report.overview.agents == 1 else f"{report.overview.agents:,} agents"
        figure.text(0.045, 1 - 0.3 / height, title, fontsize=15, fontweight="bold", color=colours.ink, va="center")
        subtitle = f"{agents}  ·  seed {report.manifest.seed}  ·  run {report.manifest.run}"
        figure.text(0.045, 1 - 0.6 / height, subtitle, fontsize=10, color=colours.muted, va="center")
    top, bottom = 1 - (head + 0.3) / height, 0.55 / height
    grid = figure.add_gridspec(rows, columns, left=0.065, right=0.98, top=top, bottom=bottom, wspace=0.16, hspace=0.5)
    for place, name in enumerate(names):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        _draw_panel(axes, report, name, colours.colours[place % len(colours.colours)], colours)
        if place >= len(names) - columns:
            axes.set_xlabel("round", fontsize=10, color=colours.ink)
    if theme is None:
        figure.savefig(target, dpi=DPI, format="png", metadata={"Title": title})
    else:
        figure.savefig(target, dpi=DPI, format="svg", facecolor=colours.page, metadata={"Date": None})


def _draw_panel(axes: Any, report: ExperimentReport, name: str, colour: str, theme: Theme) -> None:
    """One figure by round; a round in which it was no number is a gap."""
    rounds = np.array([row.round for row in report.rows])
    values = np.array([np.nan if value is None else value for value in report.list_numbers(name)], dtype=float)
    marker = "o" if len(rounds) <= MARKED_ROUNDS_MAX else ""
    axes.plot(rounds, values, color=colour, linewidth=1.8, marker=marker, markersize=4)
    axes.set_title(name.replace("$", r"\$"), fontsize=11, color=theme.ink, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.set_xlim(rounds[0] - 0.5, rounds[-1] + 0.5)
    style_axes(axes, theme)

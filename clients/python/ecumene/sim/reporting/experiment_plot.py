"""One picture of an experiment of one's own: a panel for each figure, by round."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ecumene.sim.reporting.experiment import ExperimentReport
from ecumene.sim.reporting.theme import LIGHT, Theme

DPI = 100
WIDTH_IN, PANEL_IN, HEAD_IN = 12.0, 2.6, 0.9
PANELS_MAX = 8
COLUMNS = 2
MARKED_ROUNDS_MAX = 40


def draw_figures(target: Path | IO[bytes], report: ExperimentReport, theme: Theme | None = None) -> None:
    """Write a picture, 1200 pixels wide, of the first eight figures; keeps no state between calls. Raises OSError.

    A PNG with its title, or, for a page that has its own, an SVG in the page's colours.
    """
    names = report.names[:PANELS_MAX]
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    head = HEAD_IN if theme is None else 0.0
    height = head + 0.15 + PANEL_IN * rows
    colours = theme or LIGHT
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DPI, facecolor=colours.page)
    FigureCanvasAgg(figure)
    if theme is None:
        _write_heading(figure, report, height)
    top, bottom = 1 - (head + 0.3) / height, 0.55 / height
    grid = figure.add_gridspec(rows, columns, left=0.065, right=0.98, top=top, bottom=bottom, wspace=0.16, hspace=0.5)
    x = np.array([row.round for row in report.rows])
    for place, name in enumerate(names):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        y = np.array([np.nan if value is None else value for value in report.list_numbers(name)], dtype=float)
        marker = "o" if len(x) <= MARKED_ROUNDS_MAX else ""
        axes.plot(x, y, color=colours.colours[place % len(colours.colours)], linewidth=1.8, marker=marker, markersize=4)
        axes.set_facecolor(colours.page)
        axes.set_title(name, fontsize=11, color=colours.ink, loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set_xlim(x[0] - 0.5, x[-1] + 0.5)
        axes.tick_params(labelsize=8.5, colors=colours.muted, length=2)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(colours.line)
        if place >= len(names) - columns:
            axes.set_xlabel("round", fontsize=10, color=colours.ink)
    form, metadata = ("png", {"Title": _find_title(report)}) if theme is None else ("svg", {"Date": None})
    figure.savefig(target, dpi=DPI, format=form, facecolor=colours.page, metadata=metadata)


def _write_heading(figure: Figure, report: ExperimentReport, height: float) -> None:
    agents = "1 agent" if report.overview.agents == 1 else f"{report.overview.agents:,} agents"
    subtitle = f"{agents}  ·  seed {report.manifest.seed}  ·  run {report.manifest.run}"
    figure.text(
        0.045, 1 - 0.3 / height, _find_title(report), fontsize=15, fontweight="bold", color=LIGHT.ink, va="center"
    )
    figure.text(0.045, 1 - 0.6 / height, subtitle, fontsize=10, color=LIGHT.muted, va="center")


def _find_title(report: ExperimentReport) -> str:
    return str(report.manifest.spec.get("name", report.manifest.run))

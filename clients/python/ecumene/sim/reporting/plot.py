"""One picture of a guess game: how the numbers spread in each round, and how their mean falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Patch

from ecumene.sim.reporting.numbers import GuessRecording
from ecumene.sim.reporting.references import Reference
from ecumene.sim.reporting.rounds import RoundRow

WIDTH_PX, HEIGHT_PX, DPI = 1200, 600, 100
ROUNDS_SHOWN_MAX = 6
GROUPS_SHOWN_MAX = 8
MARKERS_MAX = 20
"""On a line; more would hide it."""
LEGEND_CHARS_MAX = 90
BINS = np.linspace(0.0, 100.0, 51)
# Okabe and Ito's palette, told apart with most kinds of colour blindness.
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#D55E00", "#F0E442", "#666666")
INK, MUTED, MEAN_COLOUR, TARGET_COLOUR = "#222222", "#777777", "#111111", "#C1121F"


def draw_rounds(
    path: Path | IO[bytes],
    recording: GuessRecording,
    rows: Sequence[RoundRow],
    *,
    title: str,
    subtitle: str,
    target_label: str,
    references: Sequence[Reference] = (),
    groups: Mapping[str, str] | None = None,
    group_order: Sequence[str] = (),
) -> None:
    """Write a PNG of 1200 × 600 pixels.

    Left a histogram for each round (of many rounds, a few), stacked by group where `groups` (agent ->
    group) tells few enough, in `group_order`; right the mean and the winning number by round, beside the references.
    Draws without a display and keeps no state between calls. Raises OSError.
    """
    figure = Figure(figsize=(WIDTH_PX / DPI, HEIGHT_PX / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.045, 0.945, title, fontsize=15, fontweight="bold", color=INK, va="center")
    figure.text(0.045, 0.895, subtitle, fontsize=10, color=MUTED, va="center")
    grid = figure.add_gridspec(1, 2, left=0.075, right=0.98, top=0.775, bottom=0.1, wspace=0.15)
    shown = choose_rounds([row for row in rows if row.reported])
    draw_histograms(figure, grid, recording, shown, *code_groups(recording, groups, group_order))
    draw_means(figure.add_subplot(grid[0, 1]), rows, target_label, references)
    figure.savefig(path, dpi=DPI, format="png", metadata={"Title": title})


def choose_rounds(rows: Sequence[RoundRow]) -> list[RoundRow]:
    """All rounds, or first, last and evenly spaced ones between."""
    if len(rows) <= ROUNDS_SHOWN_MAX:
        return list(rows)
    return [rows[place] for place in np.linspace(0, len(rows) - 1, ROUNDS_SHOWN_MAX).round().astype(int)]


def draw_histograms(
    figure: Figure,
    grid: GridSpec,
    recording: GuessRecording,
    rows: Sequence[RoundRow],
    names: Sequence[str],
    codes: np.ndarray,
) -> None:
    """One flat histogram under the other, with a common axis of numbers."""
    inner = grid[0, 0].subgridspec(max(len(rows), 1), 1, hspace=0.28)
    for place, row in enumerate(rows):
        axes = figure.add_subplot(inner[place, 0])
        counted = recording.number_rounds == row.round
        bottom = np.zeros(len(BINS) - 1)
        for code in range(len(names)):
            numbers = recording.numbers[counted & (codes == code)]
            height = np.histogram(numbers, BINS)[0] / row.reported
            axes.stairs(bottom + height, BINS, baseline=bottom, fill=True, color=pick_colour(code), linewidth=0)
            bottom = bottom + height
        top = max(float(bottom.max()), 1e-9)
        assert row.mean is not None
        assert row.target is not None
        axes.axvline(row.mean, color=MEAN_COLOUR, linewidth=1.3)
        axes.axvline(row.target, color=TARGET_COLOUR, linewidth=1.3, linestyle=(0, (4, 2)))
        write_caption(axes, f"round {row.round}", -2, fontsize=10, color=INK)
        write_caption(axes, f"mean {row.mean:.2f} · n = {row.reported:,}", -16, fontsize=8.5, color=MUTED)
        style_histogram(axes, top, last=place == len(rows) - 1)
        if place == 0:
            write_heading(axes, "Numbers named, share of players per 2 units")
            if len(names) > 1:
                add_group_legend(axes, names)


def style_histogram(axes: Any, top: float, *, last: bool) -> None:
    """Axes of a flat histogram: its own height, labelled at the top only."""
    axes.set_xlim(0, 100)
    axes.set_ylim(0, top * 1.12)
    axes.set_yticks([top], [f"{top:.0%}" if top >= 0.1 else f"{top:.1%}"])
    axes.tick_params(labelsize=8.5, colors=MUTED, length=2)
    axes.tick_params(labelbottom=last)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")
    if last:
        axes.set_xlabel("number", fontsize=10, color=INK)


def write_caption(axes: Any, text: str, down_points: float, **style: Any) -> None:
    """A line of text at the upper right of a histogram."""
    corner = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "top"}
    axes.annotate(text, (1, 1), (-2, down_points), **corner, **style)


def write_heading(axes: Any, text: str) -> None:
    """The heading of a panel, with room for a line of legend below it."""
    axes.annotate(text, (0, 1), (0, 29), xycoords="axes fraction", textcoords="offset points", fontsize=11, color=INK)


def add_group_legend(axes: Any, names: Sequence[str]) -> None:
    """Colours of the groups, in a line above the first histogram, in two if they are long."""
    handles = [Patch(color=pick_colour(code)) for code in range(len(names))]
    short = sum(map(len, names)) + 5 * len(names) <= LEGEND_CHARS_MAX
    axes.legend(
        handles,
        names,
        fontsize=8,
        frameon=False,
        ncols=len(names) if short else -(-len(names) // 2),
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        handlelength=0.9,
        handletextpad=0.4,
        columnspacing=1.1,
        labelspacing=0.15,
        borderaxespad=0.1,
    )


def draw_means(axes: Any, rows: Sequence[RoundRow], target_label: str, references: Sequence[Reference]) -> None:
    """The mean by round, the winning number, and what they are compared with."""
    played = [row for row in rows if row.reported]
    rounds = [row.round for row in played]
    for reference in references:
        # A run in a world whose game was played before begins beyond the rounds that some of them are about.
        shown = {
            number: mean for number, mean in reference.means.items() if rounds and rounds[0] <= number <= rounds[-1]
        }
        if shown:
            style = REFERENCE_STYLES[reference.kind, len(set(reference.means.values())) == 1]
            axes.plot(list(shown), list(shown.values()), label=f"{reference.kind}: {reference.name}", **style)
    means, targets = [row.mean for row in played], [row.target for row in played]
    winning = f"winning number, {target_label}"
    every = -(-len(rounds) // MARKERS_MAX) or 1
    mean_style = {"color": MEAN_COLOUR, "linewidth": 2.4, "marker": "o", "markersize": 7, "markevery": every}
    target_style = {"color": TARGET_COLOUR, "linewidth": 1.8, "ls": (0, (4, 2)), "marker": "D", "markevery": every}
    axes.plot(rounds, means, label="mean of this run", **mean_style)
    axes.plot(rounds, targets, label=winning, markersize=6, **target_style)
    for row in played if len(played) <= 10 else ():
        place = (row.round, row.mean)
        axes.annotate(f"{row.mean:.1f}", place, (7, 6), textcoords="offset points", fontsize=9, color=MEAN_COLOUR)
    style_means(axes, rounds)


def style_means(axes: Any, rounds: Sequence[int]) -> None:
    """Axes, grid and legend of the right panel."""
    write_heading(axes, "Mean by round")
    axes.set_xlabel("round", fontsize=10, color=INK)
    axes.set_ylabel("number", fontsize=10, color=INK)
    axes.set_xticks(rounds if len(rounds) <= 20 else rounds[:: len(rounds) // 10])
    if rounds:
        axes.set_xlim(rounds[0] - 0.25, rounds[-1] + 0.45)
    axes.set_ylim(bottom=min(0.0, -0.02 * axes.get_ylim()[1]))
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9, colors=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")
    axes.legend(fontsize=9, frameon=False, loc="best")


# By kind, and whether it is one level: a point or a horizontal line.
REFERENCE_STYLES: dict[tuple[str, bool], dict[str, Any]] = {
    ("theory", False): {"color": "#0072B2", "linewidth": 1.3, "linestyle": ":"},
    ("theory", True): {"color": "#0072B2", "linewidth": 1.3, "linestyle": "-."},
    ("people", False): {"color": "#999999", "linewidth": 1.4, "linestyle": "-", "marker": "s", "markersize": 4},
    ("people", True): {"color": "#999999", "linestyle": "none", "marker": "*", "markersize": 10},
}


def code_groups(
    recording: GuessRecording, groups: Mapping[str, str] | None, order: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The names of the groups, and for each number the place of its agent's group among them.

    One nameless group where nothing is known, or where there are too many to tell colours apart.
    """
    names = list(dict.fromkeys([*order, *groups.values()])) if groups else []
    if not groups or not 1 < len(names) <= GROUPS_SHOWN_MAX:
        return [""], np.zeros(len(recording.numbers), dtype=np.int64)
    places = {name: place for place, name in enumerate(names)}
    by_agent = np.array([places.get(groups.get(agent, ""), len(names)) for agent in recording.agents])
    codes = by_agent[recording.number_agents]
    return ([*names, "other"] if (codes == len(names)).any() else names), codes


def pick_colour(code: int) -> str:
    """The colour of a group."""
    return COLOURS[code % len(COLOURS)]

"""One picture of a guess game: how the numbers spread in each round, and how their mean falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from ecumene.sim.reporting.theme import LIGHT, Theme

WIDTH_PX, HEIGHT_PX, DPI = 1200, 600, 100
TITLE_PX = 60
ROUNDS_SHOWN_MAX = 6
GROUPS_SHOWN_MAX = 8
MARKERS_MAX = 20
"""On a line; more would hide it."""
LEGEND_CHARS_MAX = 90
MARK_CHARS_MAX = 40
BINS = np.linspace(0.0, 100.0, 51)
LEGEND_COLUMNS = 2
HEADING_POINTS = 44


@dataclass(frozen=True, slots=True)
class RoundsPicture:
    """What the picture shows.

    Attributes:
        recording, rows: of the run.
        target_label: what the winning number is called.
        references: what the mean is compared with.
        groups: agent -> group; histograms are stacked by them where they are few enough, in `group_order`.
        marks: round from which on something was changed -> what.
        title, subtitle: above the picture; empty on a page, which has its own.
    """

    recording: GuessRecording
    rows: Sequence[RoundRow]
    target_label: str
    references: Sequence[Reference] = ()
    groups: Mapping[str, str] | None = None
    group_order: Sequence[str] = ()
    marks: Mapping[int, str] = field(default_factory=dict)
    title: str = ""
    subtitle: str = ""


def draw_rounds(
    target: Path | IO[bytes], shown: RoundsPicture, *, theme: Theme = LIGHT, file_format: str = "png"
) -> None:
    """Write a picture of 1200 × 600 pixels, or as wide and less high without a title.

    Left a histogram for each round (of many rounds, a few), stacked by group; right the mean and the winning number by
    round, beside the references. Draws without a display and keeps no state between calls. Raises OSError.
    """
    height = HEIGHT_PX if shown.title else HEIGHT_PX - TITLE_PX
    figure = Figure(figsize=(WIDTH_PX / DPI, height / DPI), dpi=DPI, facecolor=theme.page)
    FigureCanvasAgg(figure)
    if shown.title:
        figure.text(0.045, 0.945, shown.title, fontsize=15, fontweight="bold", color=theme.ink, va="center")
        figure.text(0.045, 0.895, shown.subtitle, fontsize=10, color=theme.muted, va="center")
    top, bottom = 1 - (HEIGHT_PX * 0.225 - (0 if shown.title else TITLE_PX)) / height, HEIGHT_PX * 0.1 / height
    grid = figure.add_gridspec(1, 2, left=0.055, right=0.985, top=top, bottom=bottom, wspace=0.15)
    reported = choose_rounds([row for row in shown.rows if row.reported])
    names, codes = code_groups(shown.recording, shown.groups, shown.group_order)
    draw_histograms(figure, grid, shown.recording, reported, names, codes, theme)
    draw_means(figure.add_subplot(grid[0, 1]), shown, theme)
    metadata = {"Title": shown.title or shown.target_label} | ({"Date": None} if file_format == "svg" else {})
    figure.savefig(target, dpi=DPI, format=file_format, facecolor=theme.page, metadata=metadata)


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
    theme: Theme,
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
            axes.stairs(bottom + height, BINS, baseline=bottom, fill=True, color=pick_colour(code, theme), linewidth=0)
            bottom = bottom + height
        top = max(float(bottom.max()), 1e-9)
        assert row.mean is not None
        assert row.target is not None
        axes.axvline(row.mean, color=theme.mean, linewidth=1.3)
        axes.axvline(row.target, color=theme.target, linewidth=1.3, linestyle=(0, (4, 2)))
        write_caption(axes, f"round {row.round}", -2, fontsize=10, color=theme.ink)
        write_caption(axes, f"mean {row.mean:.2f} · n = {row.reported:,}", -16, fontsize=8.5, color=theme.muted)
        style_histogram(axes, top, theme, last=place == len(rows) - 1)
        if place == 0:
            write_heading(axes, "Numbers named, share of players per 2 units", theme)
            if len(names) > 1:
                add_group_legend(axes, names, theme)


def style_axes(axes: Any, theme: Theme) -> None:
    """Quiet axes on a page of a theme."""
    axes.set_facecolor("none")
    axes.tick_params(labelsize=9, labelcolor=theme.muted, color=theme.line, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.line)


def style_histogram(axes: Any, top: float, theme: Theme, *, last: bool) -> None:
    """Axes of a flat histogram: its own height, labelled at the top only."""
    axes.set_xlim(0, 100)
    axes.set_ylim(0, top * 1.12)
    axes.set_yticks([top], [f"{top:.0%}" if top >= 0.1 else f"{top:.1%}"])
    style_axes(axes, theme)
    axes.tick_params(labelbottom=last)
    if last:
        axes.set_xlabel("number", fontsize=10, color=theme.ink)


def write_caption(axes: Any, text: str, down_points: float, **style: Any) -> None:
    """A line of text at the upper right of a histogram."""
    corner = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "top"}
    axes.annotate(text, (1, 1), (-2, down_points), **corner, **style)


def write_heading(axes: Any, text: str, theme: Theme) -> None:
    """The heading of a panel, with room for some lines of legend below it."""
    place = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(text, (0, 1), (0, HEADING_POINTS), **place, fontsize=11, fontweight="bold", color=theme.ink)


def add_group_legend(axes: Any, names: Sequence[str], theme: Theme) -> None:
    """Colours of the groups, in a line above the first histogram, in two if they are long."""
    handles = [Patch(color=pick_colour(code, theme)) for code in range(len(names))]
    short = sum(map(len, names)) + 5 * len(names) <= LEGEND_CHARS_MAX
    axes.legend(
        handles,
        names,
        fontsize=8.5,
        labelcolor=theme.ink,
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


def draw_means(axes: Any, shown: RoundsPicture, theme: Theme) -> None:
    """The mean by round, the winning number, what they are compared with, and where something was changed."""
    played = [row for row in shown.rows if row.reported]
    rounds = [row.round for row in played]
    for number, what in shown.marks.items():
        axes.axvline(number - 0.5, color=theme.muted, linewidth=1, linestyle=":")
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "rotation": 90, "va": "top"}
        axes.annotate(what[:MARK_CHARS_MAX], (number - 0.5, 1), (3, -2), **place, fontsize=8, color=theme.muted)
    for reference in shown.references if rounds else ():
        # A run in a world whose game was played before begins beyond the rounds that some of them are about.
        known = {number: mean for number, mean in reference.means.items() if rounds[0] <= number <= rounds[-1]}
        if known:
            label = f"{reference.kind}: {reference.name}"
            axes.plot(list(known), list(known.values()), label=label, **style_reference(reference, theme))
    every = -(-len(rounds) // MARKERS_MAX) or 1
    means, targets = [row.mean for row in played], [row.target for row in played]
    mean_style = {"color": theme.mean, "linewidth": 2.4, "marker": "o", "markersize": 6.5, "markevery": every}
    target_style = {"color": theme.target, "linewidth": 1.8, "ls": (0, (4, 2)), "marker": "D", "markevery": every}
    axes.plot(rounds, means, label="mean of this run", **mean_style)
    axes.plot(rounds, targets, label=shown.target_label, markersize=5.5, **target_style)
    for row in played if len(played) <= 10 else ():
        axes.annotate(
            f"{row.mean:.1f}", (row.round, row.mean), (7, 6), textcoords="offset points", fontsize=9, color=theme.mean
        )
    style_means(axes, rounds, theme)


def style_means(axes: Any, rounds: Sequence[int], theme: Theme) -> None:
    """Axes, grid and legend of the right panel."""
    write_heading(axes, "Mean by round", theme)
    style_axes(axes, theme)
    axes.set_xlabel("round", fontsize=10, color=theme.ink)
    axes.set_ylabel("number", fontsize=10, color=theme.ink)
    axes.set_xticks(rounds if len(rounds) <= 20 else rounds[:: len(rounds) // 10])
    if rounds:
        axes.set_xlim(rounds[0] - 0.25, rounds[-1] + 0.45)
    axes.set_ylim(bottom=min(0.0, -0.02 * axes.get_ylim()[1]))
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    # The run's own two lines first, beside each other.
    order = [*range(len(labels) - 2, len(labels)), *range(len(labels) - 2)]
    axes.legend(
        [handles[place] for place in order],
        [labels[place] for place in order],
        fontsize=8.5,
        labelcolor=theme.ink,
        frameon=False,
        ncols=LEGEND_COLUMNS,
        loc="lower left",
        bbox_to_anchor=(-0.015, 1.0),
        handlelength=2.2,
        columnspacing=1.4,
        labelspacing=0.15,
        borderaxespad=0.1,
    )


def style_reference(reference: Reference, theme: Theme) -> dict[str, Any]:
    """Theory dotted, what people and others did as quiet lines; of one round, a point."""
    is_level = len(set(reference.means.values())) == 1
    if reference.kind == "theory":
        return {"color": theme.theory, "linewidth": 1.3, "linestyle": "-." if is_level else ":"}
    if len(reference.means) == 1:
        return {"color": theme.people, "linestyle": "none", "marker": "*", "markersize": 10}
    return {"color": theme.people, "linewidth": 1.4, "linestyle": "-", "marker": "s", "markersize": 4}


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


def pick_colour(code: int, theme: Theme) -> str:
    """The colour of a group."""
    return theme.colours[code % len(theme.colours)]

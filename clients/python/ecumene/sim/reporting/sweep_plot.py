"""Pictures of a sweep: means of its conditions with their intervals, and effect sizes against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ecumene.sim.reporting.plot import GROUPS_SHOWN_MAX, pick_colour, style_axes
from ecumene.sim.reporting.statistics import Effect, estimate_mean
from ecumene.sim.reporting.sweep_reading import MEAN, Condition
from ecumene.sim.reporting.theme import Theme

DPI = 100
CONDITIONS_SHOWN_MAX = GROUPS_SHOWN_MAX
EFFECTS_SHOWN_MAX = 40
SPREAD = 0.03
"""Conditions are drawn side by side, so that intervals do not hide each other; in rounds."""
LETTER_GAP = 0.05
"""Between letters at the ends of lines, of the height of the picture."""
MARKERS = "osD^vP*X"


@dataclass(frozen=True, slots=True)
class EffectLine:
    """An effect to draw: the letter and place of its condition, its round, and the effect."""

    letter: str
    place: int
    round: int
    effect: Effect


def draw_conditions(target: IO[bytes], conditions: Sequence[Condition], figure_name: str, theme: Theme) -> None:
    """Write an SVG of 1200 × 460 pixels; keeps no state between calls.

    Means of a figure by round, a line a condition with its letter at the end; of one round, a point a condition.
    """
    figure, axes = _begin(4.6, theme)
    shown = conditions[:CONDITIONS_SHOWN_MAX]
    is_one_round = len({number for condition in shown for number in condition.select(figure_name)}) == 1
    ends: list[tuple[float, str, str]] = []
    for place, condition in enumerate(shown):
        values = condition.select(figure_name)
        rounds = sorted(values)
        estimates = [estimate_mean(values[number]) for number in rounds]
        means = [estimate.mean or 0.0 for estimate in estimates]
        low = [mean - (mean if one.low is None else one.low) for mean, one in zip(means, estimates, strict=True)]
        high = [(mean if one.high is None else one.high) - mean for mean, one in zip(means, estimates, strict=True)]
        places = [float(place)] if is_one_round else [one + SPREAD * (place - (len(shown) - 1) / 2) for one in rounds]
        colour = pick_colour(place, theme)
        style: dict[str, Any] = {"color": colour, "marker": MARKERS[place % len(MARKERS)], "capsize": 3}
        axes.errorbar(places, means, yerr=[low, high], linewidth=1.8, elinewidth=1.2, **style)
        ends.append((means[-1], condition.letter, colour))
    label = "mean of runs" if figure_name == MEAN else f"{figure_name}, mean of runs"
    axes.set_ylabel(label.replace("$", r"\$"), color=theme.ink)  # which would begin mathematics
    if figure_name == MEAN:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if is_one_round:
        axes.set_xticks(range(len(shown)), [condition.letter for condition in shown])
        axes.set_xlabel("condition", color=theme.ink)
        axes.set_xlim(-0.6, len(shown) - 0.4)
    else:
        axes.set_xlabel("round", color=theme.ink)
        axes.xaxis.get_major_locator().set_params(integer=True)
        _write_letters(axes, ends)
    axes.grid(axis="y", color=theme.grid)
    _end(figure, target, theme)


def draw_effects(target: IO[bytes], effects: Sequence[EffectLine], theme: Theme) -> None:
    """Write an SVG as wide, and as high as its effects need: Hedges' g with intervals, a line each, and zero."""
    drawn = [one for one in effects if one.effect.g is not None][:EFFECTS_SHOWN_MAX]
    figure, axes = _begin(0.9 + 0.3 * len(drawn), theme)
    axes.axvline(0.0, color=theme.muted, linewidth=1)
    for line, one in enumerate(drawn):
        effect, colour = one.effect, pick_colour(one.place, theme)
        if effect.low is not None and effect.high is not None:
            axes.plot([effect.low, effect.high], [line, line], color=colour, linewidth=2)
        axes.plot([effect.g], [line], color=colour, marker=MARKERS[one.place % len(MARKERS)], markersize=7)
    axes.set_yticks(range(len(drawn)), [f"{one.letter}, round {one.round}" for one in drawn])
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlabel("Hedges' g against A: below zero where it is lower", color=theme.ink)
    axes.grid(axis="x", color=theme.grid)
    _end(figure, target, theme)


def _begin(height: float, theme: Theme) -> tuple[Figure, Any]:
    figure = Figure(figsize=(12, height), dpi=DPI, facecolor=theme.page, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    style_axes(axes, theme)
    axes.set_axisbelow(True)
    return figure, axes


def _end(figure: Figure, target: IO[bytes], theme: Theme) -> None:
    figure.savefig(target, dpi=DPI, format="svg", facecolor=theme.page, metadata={"Date": None})


def _write_letters(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """The letter of each line at the right, those of near ends one above the other."""
    bottom, top = axes.get_ylim()
    height = 0.0
    for mean, letter, colour in sorted(ends):
        height = max((mean - bottom) / (top - bottom), height + LETTER_GAP)
        axes.annotate(
            letter, (1, height), xycoords="axes fraction", va="center", fontsize=11, fontweight="bold", color=colour
        )

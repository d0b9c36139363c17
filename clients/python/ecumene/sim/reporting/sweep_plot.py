"""A picture of conditions by round, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ecumene.sim.reporting.plot import COLOURS, GROUPS_SHOWN_MAX
from ecumene.sim.reporting.statistics import estimate_mean
from ecumene.sim.reporting.sweep_reading import Condition

DPI = 100
CONDITIONS_SHOWN_MAX = GROUPS_SHOWN_MAX
SPREAD = 0.03
"""Conditions are drawn side by side, so that intervals do not hide each other; in rounds."""
MARKERS = "osD^vP*X"


def draw_conditions(target: IO[bytes], conditions: Sequence[Condition]) -> None:
    """Write a PNG of 1200 × 500 pixels; keeps no state between calls."""
    figure = Figure(figsize=(12, 5), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    shown = conditions[:CONDITIONS_SHOWN_MAX]
    for place, condition in enumerate(shown):
        rounds = sorted(condition.means)
        estimates = [estimate_mean(condition.means[number]) for number in rounds]
        means = [estimate.mean or 0.0 for estimate in estimates]
        low = [mean - (mean if one.low is None else one.low) for mean, one in zip(means, estimates, strict=True)]
        high = [(mean if one.high is None else one.high) - mean for mean, one in zip(means, estimates, strict=True)]
        shifted = [number + SPREAD * (place - (len(shown) - 1) / 2) for number in rounds]
        label = condition.name.replace("$", r"\$")  # which would begin mathematics
        style: dict[str, Any] = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "capsize": 3,
        }
        axes.errorbar(shifted, means, yerr=[low, high], label=label[:100], **style)
    axes.set_xlabel("round")
    axes.set_ylabel("mean of runs")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.grid(axis="y", color="#E6E6E6")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(target, dpi=DPI, format="png")

"""Whether a run is over before its last round."""

from __future__ import annotations

from collections.abc import Sequence

from ecumene.sim.rounds.results import RoundResult
from ecumene.sim.specs.stop import StopSpec


def find_stop(stop: StopSpec | None, rounds: Sequence[RoundResult]) -> str:
    """Which condition holds after the last of these rounds, in a few words with its figures; "" = none.

    A round in which nobody reported has no mean: it is below and above nothing, and nothing has converged there.
    """
    if stop is None or not rounds:
        return ""
    last, number = rounds[-1], len(rounds)
    mean = last.mean
    if stop.mean_below is not None and mean is not None and mean < stop.mean_below:
        return f"mean_below {stop.mean_below:g}: the mean of round {number} is {mean:.6g}"
    if stop.mean_above is not None and mean is not None and mean > stop.mean_above:
        return f"mean_above {stop.mean_above:g}: the mean of round {number} is {mean:.6g}"
    if stop.converged is not None:
        means = [one.mean for one in rounds[-stop.converged.rounds :] if one.mean is not None]
        if len(means) == stop.converged.rounds and max(means) - min(means) <= stop.converged.within:
            spread = max(means) - min(means)
            return f"converged within {stop.converged.within:g}: {len(means)} rounds differ by {spread:.6g}"
    figure = None if stop.when is None else last.find_figure(stop.when.figure or "")
    if stop.when is not None and figure is not None and stop.when.holds(figure):
        return f"when {stop.when}: it is {figure:.6g} after round {number}"
    lost = (last.failed + last.missing) / max(1, last.participants)
    if stop.failed_share_above is not None and lost > stop.failed_share_above:
        return f"failed_share_above {stop.failed_share_above:g}: of round {number} {lost:.6g} failed or are missing"
    took_s = sum(one.wall_s for one in rounds)
    if stop.wall_s is not None and took_s > stop.wall_s:
        return f"wall_s {stop.wall_s:g}: {number} rounds took {took_s:.6g} s"
    return ""

"""Each stop condition holds when it should, and not at its bound."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ecumene.sim.rounds.results import RoundResult
from ecumene.sim.rounds.stopping import find_stop
from ecumene.sim.specs.stop import StopSpec
from pydantic import ValidationError


def make(mean: float | None, *, failed: int = 0, missing: int = 0, wall_s: float = 1.0) -> RoundResult:
    return RoundResult(
        round=1,
        generation=1,
        participants=10,
        reported=10 - failed - missing,
        failed=failed,
        mean=mean,
        target=mean,
        winning_number=mean,
        winner=None,
        winner_number=None,
        gate_cause="count",
        wall_s=wall_s,
        revision=1,
    )


@pytest.mark.parametrize(
    ("stop", "rounds", "said"),
    [
        ({"mean_below": 1}, [make(5), make(0.5)], "mean_below 1: the mean of round 2 is 0.5"),
        ({"mean_below": 1}, [make(0.5), make(1)], ""),
        ({"mean_below": 1}, [make(None, failed=10)], ""),
        ({"mean_above": "1/2"}, [make(0.6)], "mean_above 0.5: the mean of round 1 is 0.6"),
        ({"mean_above": 90}, [make(90)], ""),
        (
            {"converged": {"rounds": 3, "within": 0.5}},
            [make(9), make(1), make(1.5), make(1.2)],
            "3 rounds differ by 0.5",
        ),
        ({"converged": {"rounds": 3, "within": 0.5}}, [make(1), make(1)], ""),
        ({"converged": {"rounds": 2, "within": 0.5}}, [make(1), make(1.6)], ""),
        ({"converged": {"rounds": 2, "within": 0.5}}, [make(1), make(None), make(1)], ""),
        ({"wall_s": 2}, [make(9), make(9), make(9)], "wall_s 2: 3 rounds took 3 s"),
        ({"wall_s": 3}, [make(9), make(9), make(9)], ""),
        ({"failed_share_above": 0.2}, [make(9, failed=2, missing=1)], "of round 1 0.3 failed or are missing"),
        ({"failed_share_above": 0.2}, [make(9, failed=3), make(9, failed=2)], ""),
        ({"failed_share_above": 0}, [], ""),
        ({"when": {"figure": "mean", "above": 8}}, [make(9)], "when mean above 8: it is 9 after round 1"),
        ({"when": {"figure": "mean", "above": 9}}, [make(9)], ""),
        ({"when": {"figure": "nothing", "above": 0}}, [make(9)], ""),
    ],
)
def test_a_condition_is_told_with_its_figures(stop: dict[str, Any], rounds: list[RoundResult], said: str) -> None:
    found = find_stop(StopSpec.model_validate(stop), rounds)
    assert (said in found) if said else found == ""


def test_no_condition_ends_nothing_and_an_empty_section_is_refused() -> None:
    assert find_stop(None, [make(0)]) == ""
    with pytest.raises(ValidationError, match="at least one"):
        StopSpec.model_validate({})
    with pytest.raises(ValidationError, match="about a figure of the round"):
        StopSpec.model_validate({"when": {"entry": {"path": "/a", "key": "k"}, "above": 0}})


def test_figures_of_an_experiment_come_before_those_of_the_game() -> None:
    told = dataclasses.replace(make(9), figures={"mean": 3, "who": "ann", "is": True, "none": None})
    assert [told.find_figure(name) for name in ("mean", "who", "is", "none", "reported")] == [3, None, None, None, 10]

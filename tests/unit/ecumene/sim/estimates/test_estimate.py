"""An estimate counts what follows from the spec, and says the bounds of what does not."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.checks.installed import Installed
from ecumene.sim.estimates.estimate import estimate_spec
from ecumene.sim.specs.spec import RunSpec, parse_spec

MEASURED = Installed(prompts={"a": (100, 200), "b": (100, 200)}, answers={"a": "number", "b": "number"})


def make(groups: list[dict[str, Any]], **more: Any) -> RunSpec:
    document = {"name": "x", "population": {"groups": groups}, "game": {"rounds": 2, "deadline_s": 3600}}
    return parse_spec(document | more)


def test_calls_follow_from_groups_mixes_and_rounds() -> None:
    groups = [
        {"name": "a", "agent": "prompted", "count": 40, "models": {"quick": 3, "careful": 1}},
        {"name": "b", "agent": "prompted", "count": 10, "model": "careful"},
        {"name": "c", "agent": "random", "count": 7},
    ]
    found = estimate_spec(make(groups, models={"quick": {}, "careful": {"two_call": True}}), lambda _: MEASURED)
    assert {name: one.calls for name, one in found.models.items()} == {"quick": 60, "careful": 80}
    assert (found.runs, found.turns, found.total.calls) == (1, 114, 140)


def test_money_follows_from_tokens_and_prices() -> None:
    groups = [{"name": "a", "agent": "prompted", "count": 10}]
    price = {"prompt": 1_000_000, "completion": 2_000_000}
    found = estimate_spec(make(groups, model={"price": price}), lambda _: MEASURED)
    assert found.total.prompt_tokens.likely == pytest.approx(10 * (100 + 200))
    for bound in ("low", "likely", "high"):
        tokens = getattr(found.total.prompt_tokens, bound) + 2 * getattr(found.total.completion_tokens, bound)
        assert getattr(found.total.microdollars, bound) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        ({"requests_per_minute": 60}, 2 * 100),
        ({"latency_ms": 1000, "in_flight_max": 10}, 2 * 10),
        ({"latency": {"kind": "uniform", "low_ms": 0, "high_ms": 4000}, "in_flight_max": 50}, 2 * 4),
        ({"tokens_per_minute": 600}, 2 * 1500),
    ],
)
def test_time_follows_from_the_tightest_limit(model: dict[str, Any], seconds: float) -> None:
    found = estimate_spec(make([{"name": "a", "agent": "prompted", "count": 100}], model=model), lambda _: MEASURED)
    assert found.seconds.low <= found.seconds.likely <= found.seconds.high
    assert found.seconds.likely == pytest.approx(seconds, abs=7)


def test_a_sweep_is_all_its_runs() -> None:
    groups = [{"name": "a", "agent": "prompted", "count": 10}]
    sweep = {"grid": {"game.rounds": [1, 3]}, "replicates": 5, "parallel": 2}
    found = estimate_spec(make(groups, sweep=sweep), lambda _: MEASURED)
    assert (found.runs, found.turns, found.total.calls) == (10, 200, 200)


def test_what_is_assumed_is_said() -> None:
    groups = [{"name": "a", "agent": "mine:Agent", "count": 10}]
    model = {"provider": "openai", "endpoint": "http://x/v1"}
    found = estimate_spec(make(groups, model=model), lambda _: Installed(note="why not"))
    assert any("own classes (a)" in line for line in found.assumptions)
    assert any("answers within" in line for line in found.assumptions)
    assert "why not" in found.assumptions


def test_deadlines_that_are_too_short_are_said() -> None:
    groups = [{"name": "a", "agent": "prompted", "count": 100}]
    game = {"rounds": 2, "deadline_s": 5}
    found = estimate_spec(make(groups, model={"requests_per_minute": 10}, game=game), lambda _: MEASURED)
    assert any("end at their deadline of 5 s" in line and "540 s" in line for line in found.assumptions)


def test_surveys_cost_calls_tokens_money_and_time() -> None:
    groups = [{"name": "a", "agent": "prompted", "count": 100}]
    model = {"price": {"prompt": 1_000_000, "completion": 1_000_000}, "latency_ms": 1000, "in_flight_max": 10}
    survey = {"name": "s", "at": "every_round", "questions": [{"name": "q", "text": "Why?"}]}
    without = estimate_spec(make(groups, model=model), lambda _: MEASURED)
    found = estimate_spec(make(groups, model=model, surveys=[survey]), lambda _: MEASURED)
    assert (without.asked, found.asked) == (0, 200)
    assert found.total.calls == without.total.calls + 200
    assert found.total.microdollars.likely > without.total.microdollars.likely
    assert found.seconds.likely == pytest.approx(without.seconds.likely + 20)
    assert any("surveys and interviews" in line for line in found.assumptions)

"""Rounds of a clock end at the multiples of their length, and at the end."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.specs.experiment import ExperimentSpec
from ecumene.sim.specs.spec import parse_spec
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

H = 3_600_000_000_000


def make(**fields: Any) -> ExperimentSpec:
    return ExperimentSpec.model_validate(fields)


@given(start=st.integers(0, 100), length=st.integers(1, 50), every=st.integers(1, 60))
def test_rounds_follow_each_other_without_gaps(start: int, length: int, every: int) -> None:
    until = start + length
    spec = make(clock="/a", until=until, every=every)
    ends = [spec.find_end_ns(number, start) for number in range(1, spec.count_rounds(start) + 1)]
    assert ends == sorted(set(ends)) and ends[-1] == until and ends[0] > start
    assert all(end % every == 0 for end in ends[:-1])
    assert all(end - before <= every for before, end in zip([start, *ends], ends, strict=False))


def test_without_a_length_all_of_it_is_one_round() -> None:
    spec = make(clock="/a", until="2d")
    assert spec.count_rounds(8 * H) == 1 and spec.find_end_ns(1, 8 * H) == 48 * H


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "either environment"),
        ({"environment": "/a", "clock": "/a", "rounds": 1}, "either environment"),
        ({"environment": "/a"}, "rounds is missing"),
        ({"clock": "/a"}, "until is missing"),
        ({"clock": "/a", "until": "1d", "deadline_s": 3}, "deadline_s is for environment"),
        ({"environment": "/a", "rounds": 3, "every": "1h"}, "every is for clock"),
        ({"environment": "a", "rounds": 3}, "no path such as /town/market"),
        ({"environment": "/a", "rounds": 3, "figures": {"x": {"path": "/a"}}}, "one of key, operation and aggregate"),
        ({"environment": "/a", "rounds": 3, "figures": {"x y": {"path": "/a", "key": "k"}}}, "match pattern"),
        (
            {"environment": "/a", "rounds": 3, "figures": {"x": {"path": "/a", "key": "k", "arguments": {"a": 1}}}},
            "arguments are for an operation",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        make(**fields)


def test_a_spec_with_an_experiment_comes_back_from_its_manifest() -> None:
    document = {
        "name": "x",
        "world": {
            "environments": [
                {"kind": "k", "path": "/a", "clock": {"start": "8h"}, "config": {"wörd": ["数", None]}},
            ]
        },
        "population": {"groups": [{"name": "g", "agent": "m:C", "count": 2, "first_wake": "9h"}]},
        "experiment": {"clock": "/a", "until": "2d", "every": "4h"},
    }
    spec = parse_spec(document)
    assert parse_spec(spec.to_document()) == spec
    assert "game" not in spec.to_document() and spec.rounds == 10 and spec.deadline_s is None
    named = parse_spec(
        {
            "name": "x",
            "world": "shared",
            "population": document["population"] | {"groups": [{"name": "g", "agent": "random", "count": 2}]},
        }
    )
    assert named.world is not None and named.world.name == "shared"
    assert parse_spec(named.to_document()) == named

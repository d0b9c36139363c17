"""What is wrong with households is said by field, before anybody is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import parse_spec

TYPES = {"pair": {"share": 1, "members": {"adult": 1, "child": {1: 0.5, 2: 0.5}}}}
AGE = {"attribute": "age", "of": "adult", "minus": "child", "at_least": 18}


def list_problems(households: dict[str, Any], **population: Any) -> str:
    """All that is said of a population with these households."""
    given: dict[str, Any] = {
        "size": 10,
        "groups": [{"name": "all", "agent": "random", "share": 1, "attributes": population.pop("fixed", {})}],
        "attributes": {"age": {"template": "age"}, "town": {"values": ["a", "b"]}},
        "households": households,
    }
    try:
        parse_spec({"name": "x", "population": given | population})
    except SpecError as error:
        return "\n".join(map(str, error.problems))
    return ""


def test_households_are_taken_as_they_are() -> None:
    assert list_problems({"types": TYPES, "alike": ["town"], "differences": [AGE]}) == ""
    spec = parse_spec(
        {
            "name": "x",
            "population": {
                "groups": [{"name": "a", "agent": "random", "count": 4}],
                "households": {"types": TYPES},
                "networks": {"homes": {"household": True}},
            },
        }
    )
    assert parse_spec(spec.to_document()) == spec
    assert spec.population.list_attributes() == ["household", "role"]


@pytest.mark.parametrize(
    ("households", "population", "said"),
    [
        ({}, {}, "population.households: give either types or file"),
        ({"types": TYPES, "file": "x.csv"}, {}, "give either types or file"),
        ({"types": TYPES, "weight": "w"}, {}, "household, columns and weight go with file"),
        ({"file": "x.csv"}, {}, "file needs household"),
        ({"types": {"a": {"share": 0.9, "members": {"x": 1}}}}, {}, "the shares sum to 0.9, not to 1"),
        ({"types": {"a": {"share": 1, "members": {"x": {1: 0.4}}}}}, {}, "x: the shares sum to 0.4"),
        ({"types": {"a": {"share": 1, "members": {"x": {1.5: 1}}}}}, {}, "x: '1.5' is no number of members"),
        ({"types": {"a": {"share": 1, "members": {"x": 101}}}}, {}, "x: '101' is no number of members"),
        ({"types": TYPES}, {"attributes": {"role": {"values": [1]}}}, "role has two sources: households and another"),
        ({"types": TYPES, "alike": ["twon"]}, {}, "alike[0]: twon is none of population.attributes"),
        ({"types": TYPES, "differences": [AGE | {"attribute": "agee"}]}, {}, "agee is not drawn: there are age, town"),
        ({"types": TYPES, "differences": [AGE | {"of": "aunt"}]}, {}, "of: nobody is 'aunt'; there are adult, child"),
        ({"types": TYPES, "differences": [AGE | {"minus": "adult"}]}, {}, "of and minus are two roles"),
        ({"types": TYPES, "differences": [AGE], "alike": ["age"]}, {}, "all of a household have the same age"),
        ({"types": TYPES, "differences": [{"attribute": "age", "of": "adult", "minus": "child"}]}, {}, "at least one"),
        ({"types": TYPES}, {"fixed": {"role": "child"}}, "role is what households give, which no group fixes"),
        (
            {"types": TYPES},
            {"constraints": [{"never": {"age": 3, "role": "adult"}}]},
            "role stays as households give it: name another attribute last",
        ),
        (
            {"file": "x.csv", "household": "h", "differences": [AGE]},
            {},
            "differences[0]: no column of the file becomes role",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(
    households: dict[str, Any], population: dict[str, Any], said: str
) -> None:
    assert said in list_problems(households, **population)


def test_a_network_of_households_needs_some() -> None:
    spec = {
        "groups": [{"name": "a", "agent": "random", "count": 4}],
        "networks": {"homes": {"household": True}},
    }
    with pytest.raises(SpecError, match=r"networks\.homes\.household: there are no households"):
        parse_spec({"name": "x", "population": spec})

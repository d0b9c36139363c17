"""Attributes that cannot be are refused in one line, where they stand; those that can be survive a manifest."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim import SpecError, parse_spec

AGE = {"age": {"template": "age"}}
FORMS: dict[str, dict[str, Any]] = {
    "t": {"template": "gender"},
    "c": {"categories": {"1": "1/3", "zwei": "2/3"}},
    "v": {"values": [1, 2.5, "x"]},
    "f": {"file": "names.txt"},
    "u": {"uniform": {"low": 0, "high": 1}, "whole": True},
    "n": {"normal": {"mean": 0, "deviation": 1, "at_most": 3}},
    "l": {"lognormal": {"median": 1, "sigma": 1}},
    "i": {"integers": {"low": 1, "high": 6}},
    "b": {"bins": [{"low": 0, "high": 1, "share": 1}]},
    "g": {"given": ["t"], "table": [{"when": {"t": ["male", "x"]}, "values": [1]}, {"file": "x.csv", "column": "y"}]},
}


def parse(**fields: Any) -> Any:
    """A spec of one group whose population has these fields."""
    group = {"name": "a", "agent": "random", "share": 1, **fields.pop("group", {})}
    return parse_spec({"name": "x", "population": {"size": 10, "groups": [group], **fields}})


def test_every_form_survives_a_manifest_and_gets_absolute_paths() -> None:
    tables = [{"file": "sample.csv", "columns": {"a": "m"}, "marginals": {"m": {"1": "1/3", "2": "2/3"}}}]
    never = {"never": {"u": {"below": 1}, "m": [1, 2]}}
    networks = {"friends": {"file": "edges.csv"}, "kin": {"homophily": {"by": ["i"], "alike": 1, "neighbours": 2}}}
    fields = {"attributes": FORMS, "tables": tables, "constraints": [never], "networks": networks}
    spec = parse(**fields, group={"attributes": {"i": 3}})
    assert parse_spec(spec.to_document()) == spec
    resolved = spec.resolve_paths().population
    assert resolved.tables[0].file.is_absolute()
    assert resolved.attributes["f"].file.is_absolute()
    assert resolved.networks["friends"].file.is_absolute()
    assert resolved.attributes["g"].table[1].file.is_absolute()
    assert resolved.constraints[0].describe() == "never u below 1, m 1 or 2"


@pytest.mark.parametrize(
    ("fields", "where", "told"),
    [
        (
            {"attributes": {"x": {"categories": {"a": 0.6, "b": 0.6}}}},
            "attributes.x",
            "the shares sum to 1.2, not to 1",
        ),
        ({"attributes": {"x": {"categories": {"a": 0}}}}, "attributes.x", "all shares are 0"),
        ({"attributes": {"x": {"categories": {"a": -1, "b": 2}}}}, "attributes.x", "at least 0"),
        ({"attributes": {"x": {"categories": {True: 1}}}}, "attributes.x", 'write "yes" and "no" in quotes'),
        ({"attributes": {"x": {}}}, "attributes.x", "there is none"),
        ({"attributes": {"x": {"template": "age", "values": [1]}}}, "attributes.x", "there are template, values"),
        ({"attributes": {"x": {"template": "agr"}}}, "attributes.x.template", "did you mean age"),
        ({"attributes": {"persona": {"values": [1]}}}, "attributes.persona", "every agent has one already"),
        ({"attributes": {"a b": {"values": [1]}}}, "attributes.a b", "no name of an attribute"),
        (
            {"attributes": {"x": {"uniform": {"low": 1, "high": 1}}}},
            "attributes.x.uniform",
            "low 1 is not below high 1",
        ),
        ({"attributes": {"x": {"integers": {"low": 2, "high": 1}}}}, "attributes.x.integers", "above high"),
        ({"attributes": {"x": {"values": [1], "column": "y"}}}, "attributes.x", "column goes with file"),
        ({"attributes": {"x": {"values": [1], "whole": True}}}, "attributes.x", "whole goes with"),
        (
            {"attributes": {"x": {"given": ["age"], "values": [1]}, **AGE}},
            "attributes.x",
            "given and table go together",
        ),
        ({"attributes": {"x": {"given": ["z"], "table": [{"values": [1]}]}}}, "attributes.x.given", "called 'z'"),
        (
            {"attributes": {"x": {"given": ["age"], "table": [{"when": {"y": 1}, "values": [1]}]}, **AGE}},
            "attributes.x",
            "a case asks for y",
        ),
        ({"tables": [{"file": "f", "columns": {"a": "m", "b": "m"}}]}, "tables[0]", "two columns become m"),
        ({"attributes": AGE, "tables": [{"file": "f", "columns": {"a": "age"}}]}, "tables[0].columns", "two sources"),
        ({"attributes": AGE, "constraints": [{"never": {"agee": 1}}]}, "constraints[0].never", "'agee'; there are age"),
        ({"constraints": [{"never": {"age": 1}}]}, "constraints[0].never", "there are none"),
        ({"attributes": AGE, "constraints": [{"never": {"age": {}}}]}, "constraints[0].never.age", "at least one of"),
        ({"networks": {"n": {}}}, "networks.n", "there is none"),
        ({"networks": {"n": {"small_world": {"neighbours": 3}}}}, "networks.n.small_world.neighbours", "multiple of 2"),
        (
            {"networks": {"n": {"homophily": {"by": ["x"], "alike": 0.5, "neighbours": 3}}}},
            "networks.n.homophily.by",
            "no attribute is called 'x'; there are none",
        ),
        ({"group": {"attributes": {"age": 1}}}, "groups[0].attributes", "population.attributes names none"),
        ({"attributes": AGE, "group": {"persona": "{agee}"}}, "groups[0].persona", "called 'agee'"),
        (
            {
                "attributes": {
                    "x": {"bins": [{"low": 0, "high": 2, "share": "1/2"}, {"low": 1, "high": 3, "share": "1/2"}]}
                }
            },
            "attributes.x",
            "overlap",
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(fields: dict[str, Any], where: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(**fields)
    told_all = [str(problem) for problem in caught.value.problems]
    assert any(f"population.{where}" in each and told in each for each in told_all), told_all


def test_shares_are_divided_where_that_is_asked_for() -> None:
    parse(attributes={"x": {"categories": {"a": 3, "b": 1}, "normalise": True}})


def test_a_persona_may_have_braces_where_there_are_no_attributes() -> None:
    parse(group={"persona": "{json}"})

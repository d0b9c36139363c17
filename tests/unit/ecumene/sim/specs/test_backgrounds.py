"""What a spec may say of backgrounds, and what it is told otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, parse_spec

from tests.unit.ecumene.sim.backgrounds.people import make_spec


def parse(*, persona: str = "", attributes: dict[str, Any] | None = None, **more: Any) -> RunSpec:
    population = {
        "groups": [{"name": "a", "agent": "prompted", "count": 3, "persona": persona}],
        "attributes": {"age": {"template": "age"}} if attributes is None else attributes,
        "backgrounds": {"mode": "template"},
    }
    return parse_spec({"name": "x", "population": population | more.pop("population", {}), **more})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mode": "template", "texts": ["{age}"]}, r"backgrounds\.texts\[0\]: does not tell gender"),
        (
            {"mode": "template", "texts": ["{agee}"]},
            "'agee' is not among the attributes that are told: age, gender, city",
        ),
        ({"texts": ["{age}"]}, "texts is for mode template"),
        ({"mode": "template", "repairs": 3}, "repairs is for mode model"),
        ({"attributes": ["agee"]}, r"backgrounds\.attributes: no attribute is called 'agee'; there are age"),
        ({"groups": ["c"]}, r"backgrounds\.groups: no group is called 'c'; there are a, b"),
        ({"temperature": {"low": 2, "high": 1}}, "low 2 is above high 1"),
        ({"file": "b.csv"}, "must end in .parquet"),
        ({"alike": 0}, "alike"),
        ({"languages": "en"}, "languages"),
    ],
)
def test_mistakes_name_their_field(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        make_spec(**given)


def test_backgrounds_need_attributes_and_a_name_of_their_own() -> None:
    with pytest.raises(SpecError, match="no attributes to make a text of"):
        parse(attributes={})
    with pytest.raises(SpecError, match="an attribute is called 'background', too"):
        parse(attributes={"background": {"values": ["x"]}})


def test_a_persona_tells_the_background_or_the_group_has_none() -> None:
    parse(persona="You are {age}. {background}")
    parse(persona="You are {age}.", population={"backgrounds": None})
    with pytest.raises(SpecError, match="does not tell the background: name it as"):
        parse(persona="You are {age}.")
    with pytest.raises(SpecError, match="no attribute is called 'background'"):
        parse(persona="{background}", population={"backgrounds": None})


def test_of_several_models_one_writes() -> None:
    models = {"small": {}, "large": {}}
    groups = [{"name": "a", "agent": "prompted", "count": 3, "model": "small"}]
    with pytest.raises(SpecError, match=r"backgrounds\.model: is missing: there are several models"):
        parse(models=models, population={"groups": groups, "backgrounds": {}})
    with pytest.raises(SpecError, match=r"backgrounds\.model: no model is called 'huge'; there are small, large"):
        parse(models=models, population={"groups": groups, "backgrounds": {"model": "huge"}})
    parse(models=models, population={"groups": groups, "backgrounds": {"model": "large"}})


def test_runs_of_a_sweep_share_their_people_or_need_no_file() -> None:
    replicates = {"replicates": 2}
    with pytest.raises(SpecError, match=r"population\.backgrounds: are written for the people of one seed"):
        parse(sweep=replicates, population={"backgrounds": {}})
    parse(sweep=replicates, population={"backgrounds": {}, "seed": 3})
    parse(sweep={"grid": {"population.seed": [1, 2]}}, population={"backgrounds": {}})
    parse(sweep=replicates)


def test_for_others_texts_are_put_together() -> None:
    spec = make_spec(groups=["a"], attributes=["age"], repairs=3, language="German").population.backgrounds
    assert spec is not None
    other = spec.put_together()
    assert (other.mode, other.groups, other.attributes, other.language) == ("template", ("a",), ("age",), "German")
    assert other.put_together() is other


def test_a_spec_comes_back_from_its_document() -> None:
    spec = make_spec(words={"female": ["she"]}, temperature={"low": 0.5, "high": 0.6})
    assert parse_spec(spec.to_document()) == spec
    assert spec.resolve_paths().population.backgrounds.file.is_absolute()  # type: ignore[union-attr]

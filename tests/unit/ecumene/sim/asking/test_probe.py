"""How figures of a probe come about, and what is remarked."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.client.records import ACTIONS, SURVEYS, TURNS, RunManifest, RunState, Table, close_part, write_manifest
from ecumene.sim.asking.probe import (
    CategoryProbe,
    Person,
    describe_people,
    find_age,
    list_remarks,
    make_probe,
    measure_echo,
    measure_similarity,
    read_probe,
    write_note,
)
from ecumene.sim.populations.population import build_population
from ecumene.sim.specs.spec import RunSpec, parse_spec

CHILD = "You are Tim, a 7-year-old who loves dinosaurs."
NURSE = "Age: 34. Nurse in Münster."


def make(provider: str = "openai", **more: Any) -> RunSpec:
    endpoint = {"endpoint": "http://localhost:1/v1"} if provider == "openai" else {}
    groups = [
        {"name": "child", "agent": "prompted", "count": 50, "persona": CHILD},
        {"name": "nurse", "agent": "prompted", "count": 1, "persona": NURSE},
        {"name": "nobody", "agent": "prompted", "count": 0},
    ]
    model = {"provider": provider, "name": "m", **endpoint}
    return parse_spec({"name": "x" * 40, "population": {"groups": groups}, "model": model} | more)


@pytest.mark.parametrize(
    ("persona", "age"),
    [
        (CHILD, 7),
        (NURSE, 34),
        ("aged 50", 50),
        ("a 12 year old", 12),
        ("a nurse", None),
        ("7 years, aged 8", None),
        ("", None),
    ],
)
def test_an_age_is_found_where_a_persona_tells_one(persona: str, age: int | None) -> None:
    assert find_age(persona) == age


def test_an_echo_is_the_share_of_longer_words_that_come_back() -> None:
    assert measure_echo(NURSE, "I am a NURSE, in münster!") == 1
    assert measure_echo(NURSE, "I am a nurse.") == 0.5
    assert measure_echo("", "anything") is None


def test_similarity_is_one_for_the_same_and_none_without_texts() -> None:
    assert measure_similarity(["I like it"], ["i LIKE it"]) == 1
    assert measure_similarity(["a b"], ["c d", "a b"]) == 0.5
    assert measure_similarity([], ["a"]) is None


def test_a_probe_is_a_run_of_few_agents_and_one_round() -> None:
    intervention = {"name": "i", "before_round": 1, "rules": {"ratio": 0.5}}
    spec = make_probe(make(game={"rounds": 5}, interventions=[intervention], probe={"per_category": 2}))
    assert [group.count for group in spec.population.groups] == [2, 1, 0]
    assert (spec.game.rounds, spec.interventions, len(spec.surveys)) == (1, (), 1)
    assert parse_spec(spec.to_document()) == spec, "it can be written to a manifest and read again"


def test_what_stands_out_is_remarked() -> None:
    found = CategoryProbe(
        "child", CHILD, 3, 2, {"ok": 2, "timeout": 1}, 0.0, [7, 7, 7], 1, "nurse", 0.9, [15.0, 22.0, 60.0], ()
    )
    assert list_remarks(found, 2 / 3) == [
        "1 of 3 gave no valid answers",
        "1 of 3 do not say that they are 7",
        "nothing of the persona comes back in the answers",
        "answers as nurse does (similarity 0.90)",
        "2 of 3 numbers take 2 steps of reasoning or more, at the age of 7",
    ]
    fine = CategoryProbe("nurse", NURSE, 3, 3, {"ok": 3}, 0.5, [34], 0, "child", 0.2, [1.0], ())
    assert list_remarks(fine, 2 / 3) == []


def test_each_is_compared_with_its_own_profile() -> None:
    groups = [
        {"name": "told", "agent": "prompted", "count": 3, "persona": "You are {age} and {beruf} by trade."},
        {"name": "plain", "agent": "prompted", "count": 2},
    ]
    attributes = {"age": {"integers": {"low": 20, "high": 60}}, "beruf": {"values": ["Müllerin"]}}
    spec = make(population={"groups": groups, "attributes": attributes})
    population = build_population(spec.population, spec.seed)
    people = describe_people(population)
    assert population.profiles is not None
    for row, code in zip(population.profiles.to_pylist(), population.codes.tolist(), strict=True):
        written = f"You are {row['age']} and Müllerin by trade." if code == 0 else f"age: {row['age']}; beruf: Müllerin"
        assert people[row["agent"]] == Person(written, row["age"])
    several = CategoryProbe("told", "", 3, 3, {"ok": 3}, 0.5, [5, 9], 2, None, None, [1.0], ())
    assert list_remarks(several, 2 / 3) == [
        "2 of 3 do not say their own age",
        "1 of 1 numbers take 2 steps of reasoning or more, at the age of 5 to 9",
    ]


def test_few_are_drawn_by_themselves_and_whole_households_of_them() -> None:
    types = {"pair": {"share": 1, "members": {"one": 1, "other": 1}}}
    population: dict[str, Any] = {
        "size": 1_000,
        "groups": [{"name": name, "agent": "prompted", "share": share} for name, share in (("a", 0.5), ("b", 0.5))],
        "households": {"types": types},
        "networks": {"n": {"small_world": {"neighbours": 20}}},
    }
    spec = make_probe(make(population=population, probe={"per_category": 3}))
    assert [group.count for group in spec.population.groups] == [3, 3]
    assert (spec.population.sampling, spec.population.networks) == ("random", {})
    alone = population | {"groups": [{"name": "a", "agent": "prompted", "share": 1}]}
    odd = make_probe(make(population=alone, probe={"per_category": 3}))
    assert [group.count for group in odd.population.groups] == [4], "pairs are no three"


def test_where_nobody_holds_a_role_that_is_said() -> None:
    assert write_note(make()) == ""
    assert "no model was asked" in write_note(make("scripted"))
    rule = {"groups": [{"name": "rule", "agent": "level-k", "parameters": {"level": 1}, "count": 1}]}
    assert "play no role" in write_note(parse_spec({"name": "x", "population": rule}))


def test_records_give_the_figures_of_each_group(tmp_path: Path) -> None:
    spec = make_probe(make(probe={"per_category": 1}))
    document = json.loads(json.dumps(spec.to_document()))
    manifest = RunManifest("r", RunState.DONE, 0, document, {}, "main", "h", "2026-01-01T00:00:00+00:00")
    write_manifest(tmp_path, manifest)
    answers = {"child": ("I love dinosaurs", 7.0), "nurse": ("I love dinosaurs", 35.0)}
    population = build_population(spec.population, spec.seed)
    names = [spec.population.groups[code].name for code in population.codes]
    surveys, turns, actions = [], [], []
    for agent, group in zip(population.name_agents(), names, strict=True):
        text, age = answers[group]
        for question, kind, number in (("self", "text", None), ("age", "integer", age)):
            told = {"answer_text": text if number is None else f"{number:g}", "answer_number": number}
            surveys.append({"agent": agent, "group": group, "question": question, "type": kind, "status": "ok", **told})
        turns.append({"agent": agent, "group": group, "turn": 1, "round": 1, "status": "ok"})
        value = {"value_kind": "double", "value_double": 10.0}
        actions.append(
            {"agent": agent, "turn": 1, "round": 1, "action": "report", "key": agent, "commit_revision": 5, **value}
        )
    for table, rows in ((SURVEYS, surveys), (TURNS, turns), (ACTIONS, actions)):
        write(tmp_path, table, rows)
    child, nurse = read_probe(tmp_path).categories
    assert (child.asked, child.answered, child.numbers, child.ages, child.wrong_age) == (1, 1, [10.0], [7], 0)
    assert (nurse.wrong_age, nurse.nearest, nurse.similarity) == (1, "child", 1.0)
    assert any("at the age of 7" in remark for remark in child.remarks)


def write(directory: Path, table: Table, rows: list[dict[str, Any]]) -> None:
    """A part with what rows lack filled in."""
    empty = {"text": "", "category": ""}
    filled = {column.name: None if column.nullable else empty.get(column.kind, 0) for column in table.columns}
    (directory / table.name).mkdir()
    staging = directory / ".staging"
    staging.mkdir(exist_ok=True)
    made = pa.Table.from_pylist([filled | row for row in rows], schema=table.schema)
    close_part(made, directory / table.name / "a-000001.parquet", staging)

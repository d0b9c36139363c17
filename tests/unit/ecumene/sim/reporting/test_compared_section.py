"""A run stands beside theory, people, published models and figures of one's own; stand-ins are never called near."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ecumene.sim.reporting.compared_section import make_compared_section, select_numbers
from ecumene.sim.reporting.page import PageTable
from ecumene.sim.reporting.report import GuessReading, read_guess_report

TURNS = [("agent-000001", 1, "ok", 20.0, True), ("agent-000002", 1, "ok", 16.0, True)]
LATER = [("agent-000001", 2, "ok", 12.0, True), ("agent-000002", 2, "ok", 10.0, True)]


def read(directory: Path, **changed: Any) -> GuessReading:
    """A run's reading; with parts of its spec changed."""
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["spec"] |= changed
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return read_guess_report(directory)


def find(reading: GuessReading, caption: str) -> PageTable:
    """A table of the section by how its caption begins."""
    return next(table for table in make_compared_section(reading).tables if table.caption.startswith(caption))


def rows(table: PageTable) -> dict[str, list[str]]:
    """First cell -> the others."""
    return {row[0]: list(row[1:]) for row in table.rows}


def test_theory_people_and_all_models_stand_beside_rule_agents_without_a_word_of_nearness(record_run: Any) -> None:
    reading = read(record_run([*TURNS, *LATER]))
    first = find(reading, "Round 1")
    assert rows(first)["this run"][:4] == ["18.00", "2.83", "18.00", "2"]
    people = rows(first)["people: Nagel 1995, round 1, n = 67"]
    assert people == ["36.73", "–", "33.00", "67", "−18.73"]
    assert not any("within" in name for name, _ in first.columns)
    models = rows(find(reading, "Models in round 1"))
    assert models["Qwen2-72B"][1] == "19.15 / 8.39 / 19"
    means = rows(find(reading, "Means by round"))
    assert means["this run"] == ["18.00", "11.00", "0.611", "yes"]
    assert means["model: Llama3-70B, P1"] == ["50.30", "56.71", "1.13", "no"]
    assert means["people: Nagel 1995, one session"][:2] == ["39.70", "28.60"]
    assert "stand-ins played" in " ".join(make_compared_section(reading).texts)


def test_a_known_prompt_is_compared_with_its_own_line_alone_and_nearness_is_told_of_models(record_run: Any) -> None:
    model = {"provider": "openai", "name": "qwen2-72b-instruct", "endpoint": "http://127.0.0.1:1/v1"}
    directory = record_run(TURNS, agent="prompted")
    reading = read(directory, model=model)
    object.__setattr__(reading.report, "models", ["qwen2-72b-instruct"])
    object.__setattr__(reading.report, "note", "")
    first = find(reading, "Round 1")
    assert rows(first)["model: Qwen2-72B, P2 (asked here)"] == ["19.15", "8.39", "19.00", "–", "−1.15", "yes"]
    assert rows(first)["model: Llama3-8B, P2"][-1] == "no"
    assert not any("P1" in row[0] for row in first.rows)


def test_other_games_have_no_models_beside_them_and_facts_where_there_are(record_run: Any) -> None:
    reading = read(record_run(TURNS, ratio="1/2"))
    captions = [table.caption for table in make_compared_section(reading).tables]
    assert not any("Models in round 1" in caption for caption in captions)
    assert rows(find(reading, "Further"))["ratio 1/2"] == ["winning number, round 1", "6.21", "9.00"]
    reading = read(record_run(TURNS, ratio="4/3", name="up"))
    captions = [table.caption for table in make_compared_section(reading).tables]
    assert captions == ["Round 1", "Means by round"]  # no steps of reasoning where numbers rise


def test_figures_of_one_s_own_stand_beside_the_run(record_run: Any) -> None:
    own = [{"name": "my laboratory", "source": "me, 2024", "means": {"1": 35.5, "2": 24}}]
    reading = read(record_run([*TURNS, *LATER]), references=own)
    assert rows(find(reading, "Means by round"))["given: my laboratory"][:2] == ["35.50", "24.00"]
    assert make_compared_section(reading).folded is not None
    assert "me, 2024" in str(make_compared_section(reading).folded)


def test_a_round_without_numbers_is_compared_with_nothing(record_run: Any) -> None:
    reading = read(record_run([("agent-000001", 1, "timeout", None, False)]))
    assert rows(find(reading, "Round 1"))["this run"][:4] == ["–", "–", "–", "0"]
    assert select_numbers(reading, 1, ["all"]).tolist() == []


def test_three_families_of_models_stand_beside_the_published_mix(record_run: Any) -> None:
    directory = record_run(
        [(f"agent-00000{place}", 1, "ok", number, True) for place, number in enumerate((30.0, 20.0, 10.0), start=1)]
    )
    groups = [{"name": name, "agent": "random", "count": 1} for name in ("llama-3", "mixtral", "qwen")]
    reading = read(directory, population={"groups": groups})
    (row,) = find(reading, "Three models").rows
    assert sorted(row[1:4]) == ["10.00", "20.00", "30.00"]
    assert row[4:] == ["13.33", "32.91", "19.75", "18.83", "15.90"]


def test_groups_that_play_stand_beside_the_published_ones_in_round_1(record_run: Any) -> None:
    directory = record_run(
        [(f"agent-00000{place}", 1, "ok", number, True) for place, number in enumerate((30.0, 20.0, 10.0), start=1)],
        players="groups",
    )
    groups = [{"name": name, "agent": "random", "count": 1} for name in ("llama-3", "mixtral", "qwen")]
    (row,) = find(read(directory, population={"groups": groups}), "Three models as groups").rows
    assert row[4:] == ["13.33", "39.36", "21.14", "40.75", "22.50"]


def test_other_prompts_have_the_published_table_as_it_is(record_run: Any) -> None:
    people = [
        {"name": name, "agent": "prompted", "count": 1, "parameters": {"prompt": "guess-p5"}}
        for name in ("phd", "primary")
    ]
    reading = read(record_run(TURNS, agent="prompted"), population={"groups": people})
    assert not any(row[0].startswith("model") for row in find(reading, "Round 1").rows)
    assert len(find(reading, "Models in round 1").rows) == 7
    facts = find(reading, "Further").rows
    assert next(row[-1] for row in facts if "education" in row[0]) == "4.00"

"""Every experiment of the paper runs from its spec, and its arithmetic holds, whatever the stand-ins are tuned to.

By default with a twentieth of the agents; the long tests have the paper's sizes, 1,000 to 1,500 agents and five rounds,
and then the packaged local model in place of the stand-ins.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import duckdb
import pyarrow.dataset as ds
import pytest
import yaml
from ecumene.client.records import read_manifest
from ecumene.sim import parse_spec, run, run_sweep
from ecumene.sim.reporting.stand_ins import NO_REPRODUCTION
from ecumene.sim.specs.spec import load_spec

from tests.faults.run_processes import RunProcess, digest_own_world, find_run
from tests.model_endpoint import ModelEndpoint, Reply

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "examples" / "experiments"
NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))
SWEEPS = {"levels": 5, "temperatures": 4}
RULES = {"ratio-half": (1 / 2, 0), "ratio-51": (0.51, 0), "ratio-51-note": (0.51, 0), "five-plus-half": (1 / 2, 5)}
"""Ratio and offset, where they are not 2/3 and 0."""
FEW = ("levels", "p1", "ratio-51-note", "five-plus-half", "mixed", "mixed-groups", "education")
SMALL = Fraction(1, 20)
TOLD = 0.01
"""Prompts tell the last winning number with two digits: what follows from it is off by as much, at most twice."""
SIGMAS = 5
TABLE = (15.90, 10.35, 6.16, 3.67, 2.18)
CHAIN = (30, 20, 15, 12.5, 11.25)
GROUPS = {"llama": 39.36, "mistral": 21.14, "qwen": 40.75}
REAL = {
    "openai": '{provider: openai, name: large-1, endpoint: "https://models.example/v1", '
    "temperature: 1.0, two_call: true}",
    "local": "{provider: local, name: smollm2, temperature: 1.0}",
}


class Played(NamedTuple):
    """A run that is over: what it was, what the world told of its rounds, and what was recorded."""

    directory: Path
    spec: dict[str, Any]
    rounds: list[dict[str, Any]]
    numbers: dict[int, dict[str, float]]
    statuses: dict[str, int]
    groups: dict[str, str]
    prompts: dict[int, dict[str, str]]
    note: str


def read_document(name: str, share: Fraction = Fraction(1)) -> dict[str, Any]:
    """A spec as plain data, with a share of its agents, and its prompts recorded."""
    document: dict[str, Any] = yaml.safe_load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))
    for group in document["population"]["groups"]:
        group["count"] = int(group["count"] * share)
    document["recording"] = {"bodies": True}
    return document


async def play(document: dict[str, Any], directory: Path) -> list[Played]:
    """The runs of a spec."""
    document["recording"]["directory"] = str(directory)
    if "sweep" not in document:
        return [read_run((await run(document)).directory)]
    outcome = await run_sweep(document)
    assert [one.state for one in outcome.runs] == ["done"] * len(outcome.runs)
    return [read_run(outcome.directory / one.name) for one in outcome.runs]


def read_run(directory: Path) -> Played:
    """By the recording alone: neither the report nor the game is asked for a mean."""
    actions = ds.dataset(directory / "actions").to_table().to_pylist()
    numbers: dict[int, dict[str, float]] = {}
    for row in actions:
        value = row["value_double"] if row["value_double"] is not None else row["value_int"]
        if row["action"] == "report" and row["commit_revision"] is not None and value is not None:
            numbers.setdefault(row["round"], {})[row["agent"]] = float(value)
    statuses: dict[str, int] = {}
    rounds_of_turns = {}
    for row in ds.dataset(directory / "turns").to_table().to_pylist():
        statuses[row["status"]] = statuses.get(row["status"], 0) + 1
        rounds_of_turns[row["agent"], row["turn"]] = row["round"]
    prompts: dict[int, dict[str, str]] = {}
    calls = directory / "calls"
    for row in ds.dataset(calls).to_table().to_pylist() if calls.is_dir() else ():
        # Of two calls of a turn the first one asks, the second is given what was answered.
        if "The answer:" not in row["request_json"]:
            messages = "\n".join(one["content"] for one in json.loads(row["request_json"])["messages"])
            prompts.setdefault(rounds_of_turns[row["agent"], row["turn"]], {})[row["agent"]] = messages
    people = ds.dataset(directory / "profiles.parquet").to_table(columns=["agent", "group"]).to_pylist()
    rounds = [json.loads(line) for line in (directory / "rounds.jsonl").read_text(encoding="utf-8").splitlines()]
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    return Played(
        directory,
        read_manifest(directory).spec,
        rounds,
        numbers,
        statuses,
        {row["agent"]: row["group"] for row in people},
        prompts,
        summary["note"],
    )


def average_groups(played: Played, number: int) -> dict[str, float]:
    """Group -> the mean of its members' numbers in a round."""
    members: dict[str, list[float]] = {}
    for agent, named in played.numbers[number].items():
        members.setdefault(played.groups[agent], []).append(named)
    return {name: math.fsum(some) / len(some) for name, some in members.items()}


def check_arithmetic(played: Played, ratio: float, offset: float, *, failed: int = 0) -> None:
    """Everybody had a turn a round; mean, target and winner are those of the numbers; the report says the same.

    `failed`: how many turns may have no number.
    """
    agents, game = len(played.groups), played.spec["game"]
    assert (game["ratio"], game["offset"]) == (pytest.approx(ratio), offset)
    assert len(played.rounds) == game["rounds"]
    assert sum(played.statuses.values()) == agents * game["rounds"]
    assert agents * game["rounds"] - played.statuses.get("ok", 0) <= failed, played.statuses
    summary = json.loads((played.directory / "summary.json").read_text(encoding="utf-8"))
    for told, row in zip(played.rounds, summary["rounds"], strict=True):
        named = played.numbers[told["round"]]
        assert len(named) == told["reported"] == row["reported"]
        assert told["reported"] + told["failed"] == agents
        assert all(0 <= number <= 100 for number in named.values())
        players = named if game["players"] == "agents" else average_groups(played, told["round"])
        mean = math.fsum(players.values()) / len(players)
        assert told["mean"] == pytest.approx(mean, abs=1e-9)
        assert [told["winning_number"], row["target"]] == pytest.approx([ratio * mean + offset] * 2, abs=1e-9)
        nearest = min(abs(number - told["winning_number"]) for number in players.values())
        assert abs(players[told["winner"]] - told["winning_number"]) == pytest.approx(nearest, abs=1e-9)
        assert told["winner_number"] == pytest.approx(players[told["winner"]], abs=1e-9)
        assert told["winner"] in row["winners"] or row["winner_count"] > len(row["winners"])
        assert (played.directory / "rounds.png").stat().st_size > 10_000


def respond(rules: tuple[float, float], reference: float, steps: int) -> float:
    """A best response to a best response to …, step by step."""
    for _ in range(steps):
        reference = min(max(rules[0] * reference + rules[1], 0.0), 100.0)
    return reference


def average_truncated(centre: float, deviation: float) -> float:
    """The mean of a normal distribution's part within 0 and 100 (Johnson, Kotz, Balakrishnan 1994, section 10.1)."""
    normal = NormalDist()
    low, high = (0 - centre) / deviation, (100 - centre) / deviation
    inside = normal.cdf(high) - normal.cdf(low)
    return centre + deviation * (normal.pdf(low) - normal.pdf(high)) / inside


def check_levels(played: Played, rules: tuple[float, float], player: Mapping[str, Any]) -> None:
    """Stand-ins and rule agents that think k steps have the mean of theory, whatever k and their noise are."""
    reference = 50.0
    for told in played.rounds:
        centre = respond(rules, reference, player["level"])
        deviation = player.get("deviation", 0.0)
        expected = average_truncated(centre, deviation) if deviation else centre
        allowed = SIGMAS * deviation / math.sqrt(len(played.groups)) + 2 * TOLD / rules[0]
        assert abs(told["mean"] - expected) <= allowed, (told["round"], told["mean"], expected)
        reference = (told["winning_number"] - rules[1]) / rules[0]


def check_prompts(name: str, played: Played, rules: tuple[float, float]) -> None:
    """Every agent was asked in every round, by the prompt of its condition, and told the last winning number."""
    if name == "levels":
        assert not played.prompts
        return
    assert played.prompts.keys() == {told["round"] for told in played.rounds}
    target = {(2 / 3, 0): "2/3 of the average", (1 / 2, 0): "1/2 of the average", (0.51, 0): "51/100 of the average"}
    for number, prompts in played.prompts.items():
        assert prompts.keys() == played.groups.keys()
        for agent, text in prompts.items():
            assert target.get(rules, "y = 5 + 1/2 · x") in text
            assert ("step by step" in text) == (name != "p1")
            assert ("All players are rational" in text) == (name in ("p3", "p4"))
            assert ("adapts" in text) == (name == "p4")
            assert ("a variant of a well-known game" in text) == (name == "ratio-51-note")
            assert ("The background of the person" in text) == (name in ("child", "education", "occupations"))
            assert ("You are a member of the group " + played.groups[agent] in text) == (name == "mixed-groups")
            if number == 1:
                assert "the winning number was" not in text
            else:
                told = float(text.split("the winning number was ")[1].split("\n")[0].strip(". "))
                assert told == pytest.approx(played.rounds[number - 2]["winning_number"], abs=TOLD)


def check_condition(name: str, played: Played) -> None:
    """What an experiment shows beside its arithmetic."""
    winning = [told["winning_number"] for told in played.rounds]
    if name == "mixed":
        assert winning == pytest.approx(TABLE, abs=0.02)
        check_query(played)
    elif name == "five-plus-half":
        assert [told["mean"] for told in played.rounds] == pytest.approx(CHAIN, abs=TOLD)
        summary = json.loads((played.directory / "summary.json").read_text(encoding="utf-8"))
        references = {one["name"]: one["means"] for one in summary["references"]}
        assert set(references["equilibrium"].values()) == {10}
        assert list(references["best response each round"].values()) == pytest.approx(CHAIN)
    elif name == "mixed-groups":
        assert played.rounds[0]["groups"] == pytest.approx(GROUPS)
        assert winning[0] == pytest.approx(22.50, abs=0.005)
        for told in played.rounds:
            assert told["groups"] == pytest.approx(average_groups(played, told["round"]))
            later = played.prompts.get(told["round"] + 1, {})
            listed = ", ".join(
                f"{group}: {number:.2f}".rstrip("0").rstrip(".") for group, number in told["groups"].items()
            )
            assert all(f"the numbers of the groups were {listed}, " in text for text in later.values())
    elif name in ("education", "occupations"):
        sizes = {name: list(played.groups.values()).count(name) for name in set(played.groups.values())}
        assert len(sizes) == (5 if name == "education" else 6)
        assert len(set(sizes.values())) == 1
        personas = {group["name"]: group["persona"] for group in played.spec["population"]["groups"]}
        assert all(personas[played.groups[agent]] in text for agent, text in played.prompts[1].items())


def check_query(played: Played) -> None:
    """The page's own query gives the means of the groups."""
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    (query,) = re.findall(r'"""(.*?)"""', page, re.DOTALL)
    rows = duckdb.sql(query.replace("RUN", str(played.directory))).fetchall()
    means = {(number, group): mean for number, group, _, mean, *_ in rows}
    expected = {
        (number, group): mean for number in played.numbers for group, mean in average_groups(played, number).items()
    }
    assert means == pytest.approx(expected)


def check_runs(name: str, runs: Sequence[Played]) -> None:
    """All that is asserted of an experiment."""
    assert len(runs) == SWEEPS.get(name, 1)
    rules = RULES.get(name, (2 / 3, 0))
    for played in runs:
        check_arithmetic(played, *rules)
        check_prompts(name, played, rules)
        check_condition(name, played)
        assert NO_REPRODUCTION in played.note
        players = [group["parameters"] for group in played.spec["population"]["groups"] if group["agent"] == "level-k"]
        answers = (played.spec["model"] or {}).get("answers") or {}
        if "level" in answers:
            players.append(answers)
        for player in players:
            check_levels(played, rules, player)
    if name == "temperatures":
        launches = [json.loads((played.directory / "launch" / "launch.json").read_text()) for played in runs]
        asked = [[model["temperature"] for model in launch["models"].values()] for launch in launches]
        assert asked == [[0.05], [0.25], [0.5], [1.0]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", ["levels", "p1", "ratio-51-note", "five-plus-half", "mixed", "mixed-groups", "education"]
)
async def test_an_experiment_of_the_paper_on_few_agents(name: str, tmp_path: Path) -> None:
    document = read_document(name, SMALL)
    if name == "levels":
        document["sweep"]["grid"]["population.groups.thinkers.parameters.level"] = [0, 1, 2, 3, 4]
        document["sweep"]["parallel"] = 2
    check_runs(name, await play(document, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
async def test_an_experiment_of_the_paper_at_its_size(name: str, tmp_path: Path) -> None:
    document = read_document(name)
    assert 1_000 <= sum(group["count"] for group in document["population"]["groups"]) <= 1_500
    check_runs(name, await play(document, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_groups_play_alike_on_any_number_of_workers_and_over_kills(tmp_path: Path) -> None:
    document = read_document("mixed-groups", Fraction(1, 10))
    for level, model in enumerate(document["models"].values(), start=1):
        model["answers"] = {"player": "noisy-level-k", "level": level, "deviation": 5}

    def write(folder: Path) -> Path:
        folder.mkdir()
        document["recording"]["directory"] = str(folder / "runs")
        (folder / "spec.yaml").write_text(json.dumps(document), encoding="utf-8")
        return folder / "spec.yaml"

    async def play_on(folder: Path, workers: str, *moments: str) -> str:
        command = ["run", str(write(folder)), "--workers", workers]
        for moment in moments:
            running = await RunProcess.start(*command)
            assert await running.wait_line(moment), running.errors
            await running.kill()
            command = ["resume", str(find_run(folder))]
        running = await RunProcess.start(*command)
        assert await running.wait(300) == 0, running.errors
        check_arithmetic(read_run(find_run(folder)), 2 / 3, 0)
        return str(await digest_own_world(find_run(folder)))

    one = await play_on(tmp_path / "one", "1")
    assert await play_on(tmp_path / "four", "4") == one
    assert await play_on(tmp_path / "killed", "2", "launching the agents", "round 1:", "round 3:") == one


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["p1", "p2", "p3", "p4", "child", "mixed-groups", "five-plus-half", "ratio-51-note"])
async def test_the_packaged_model_answers_each_prompt(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Form and arithmetic are asserted; what it names is written down, and no claim of anything."""
    document = read_document(name, Fraction(1, 50))
    model = yaml.safe_load(REAL["local"]) | {"threads": 1, "slots": 4, "max_tokens": 200, "timeout_s": 900}
    if "models" in document:
        document["models"] = dict.fromkeys(document["models"], model)
    else:
        document["model"] = model
    # Of groups a second round, in which their numbers are told.
    document["game"]["rounds"] = 2 if name == "mixed-groups" else 1
    (played,) = await play(document, tmp_path)
    assert 20 <= len(played.groups) <= 50
    assert NO_REPRODUCTION not in played.note
    rules = RULES.get(name, (2 / 3, 0))
    check_arithmetic(played, *rules, failed=sum(played.statuses.values()) // 2)
    check_prompts(name, played, rules)
    for number, named in played.numbers.items():
        figures = f"n {len(named)} mean {statistics.fmean(named.values()):.2f} {sorted(named.values())}"
        record_property(f"round {number}", figures)
        print(f"{name} round {number}: {figures} {played.statuses}")


def put_model(name: str, line: str, folder: Path) -> Path:
    """The spec with a real model: one line for each that it has, as its own comment shows."""
    lines = (SPECS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    places = [place for place, text in enumerate(lines) if text.partition(": ")[2].startswith("{provider: scripted")]
    assert len(places) in (1, 3)
    for place in places:
        lines[place] = f"{lines[place].partition(': ')[0]}: {line}"
    path = folder / "real.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("provider", list(REAL))
@pytest.mark.parametrize("name", [name for name in NAMES if name != "levels"])
def test_a_real_model_is_one_line(name: str, provider: str, tmp_path: Path) -> None:
    assert f": {REAL[provider]}\n" in (SPECS / f"{name}.yaml").read_text(encoding="utf-8")
    models = load_spec(put_model(name, REAL[provider], tmp_path)).list_models()
    assert {model.provider for model in models.values()} == {provider}
    assert {model.temperature for model in models.values()} == {1.0}


@pytest.mark.timeout(120)
async def test_with_another_line_an_endpoint_is_asked_twice_a_turn(tmp_path: Path) -> None:
    """First freely, then for the number that was said."""

    def answer(body: dict[str, Any]) -> Reply:
        asked = body["messages"][-1]["content"]
        return Reply(json.dumps({"reasoning": "", "number": 12.5}) if "The answer:" in asked else "I choose 12.5.")

    async with ModelEndpoint(answer) as endpoint:
        line = REAL["openai"].replace("https://models.example/v1", endpoint.base_url)
        document = yaml.safe_load(put_model("five-plus-half", line, tmp_path).read_text(encoding="utf-8"))
        document["population"]["groups"][0]["count"] = 20
        document["recording"] = {"bodies": True}
        (played,) = await play(document | {"game": document["game"] | {"rounds": 2}}, tmp_path / "runs")
        assert endpoint.complaints == []
        assert len(endpoint.requests) == 2 * 20 * 2
        assert {body["model"] for body in endpoint.requests} == {"large-1"}
    check_arithmetic(played, 1 / 2, 5)
    check_prompts("five-plus-half", played, (1 / 2, 5))
    assert [told["mean"] for told in played.rounds] == [12.5, 12.5]
    assert NO_REPRODUCTION not in played.note


def test_the_page_names_each_experiment() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}.yaml`" not in page] == []
    for name in NAMES:
        parse_spec(read_document(name))

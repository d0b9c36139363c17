"""Experiments of one's own as users run them: the examples, with any number of workers, in sweeps, with surveys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ecumene.client import connect
from ecumene.client.records import digest_turns
from ecumene.sim import RunOptions, RunOutcome, SpecError, parse_spec, run, run_sweep
from ecumene.sim.checks.check import check_spec
from ecumene.sim.reporting import ExperimentReport, write_report
from ecumene.sim.reporting.experiment import read_rounds
from ecumene.sim.rounds.errors import ExperimentError, RefusedRoundError
from ecumene.sim.runs.defects import DefectError
from ecumene.sim.specs.yaml_reading import read_yaml

from tests.services import ServerProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLAYERS = [
    {"name": "givers", "agent": "public_goods:Giver", "count": 8, "parameters": {"matches": 0.9}},
    {"name": "free-riders", "agent": "public_goods:FreeRider", "count": 2},
]


@pytest.fixture(autouse=True)
def _examples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, found)))


def read(example: str, folder: Path, **changes: Any) -> dict[str, Any]:
    document, _ = read_yaml((EXAMPLES / example).read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document | {"recording": {"directory": str(folder)}} | changes


async def play(document: dict[str, Any], workers: int = 1) -> RunOutcome:
    return await run(document, options=RunOptions(workers=workers))


def list_figures(outcome: RunOutcome) -> list[dict[str, Any]]:
    return [dict(one.figures) for one in outcome.rounds]


async def test_giving_declines_and_stops_where_the_spec_says(tmp_path: Path) -> None:
    one = await play(read("public_goods.yaml", tmp_path))
    means = [round.find_figure("mean") for round in one.rounds]
    assert means == sorted(means, key=lambda mean: -(mean or 0)) and len(means) < 10, "each gives less than all before"
    assert one.manifest.ended_by.startswith("when mean below 1")
    assert all(round.reported == 50 and round.failed == round.missing == 0 for round in one.rounds)
    # Exactly what the rule says: 0.9 times the last mean, to the nearest whole number, of 40 in 50.
    assert means[1:] == pytest.approx([0.8 * round(0.9 * mean) for mean in means[:-1] if mean is not None])
    report = one.report
    assert isinstance(report, ExperimentReport) and report.names == ["mean", "share", "gave_nothing"]
    assert report.plot is not None and report.plot.stat().st_size > 5_000
    write_report(one.directory, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "gave_nothing" in page and "winning" not in page


async def test_the_same_seed_gives_the_same_run_on_one_and_four_workers(tmp_path: Path) -> None:
    documents = [
        read("public_goods.yaml", tmp_path / "goods", population={"groups": PLAYERS}),
        read(
            "rumour.yaml",
            tmp_path / "rumour",
            population={"groups": [{"name": "people", "agent": "rumour:Stroller", "count": 16}]},
            experiment={"clock": "/square", "until": "20h", "every": "4h"}
            | {"figures": {"knowing": {"path": "/square", "operation": "count_knowing"}}},
        ),
    ]
    for document in documents:
        one, four = await play(document), await play(document | {"name": "four"}, workers=4)
        assert list_figures(one) == list_figures(four)
        assert digest_turns(one.directory) == digest_turns(four.directory)
    other = await play(documents[0] | {"name": "other", "seed": 2})
    assert digest_turns(other.directory) not in {
        digest_turns(run) for run in (tmp_path / "goods").iterdir() if run != other.directory
    }


async def test_a_rumour_spreads_until_the_time_is_over(tmp_path: Path) -> None:
    document = read("rumour.yaml", tmp_path)
    del document["stop"]
    document["population"]["groups"][0]["count"] = 30
    document["experiment"] |= {"until": "16h", "every": "3h"}
    document["surveys"] = [{"name": "s", "at": "every_round", "questions": [{"name": "q", "text": "Well?"}]}]
    outcome = await play(document)
    # The clock begins at 8 h; rounds end at multiples of 3 h, the last one where the time is over.
    assert [one.figures["until"] for one in outcome.rounds] == ["9h", "12h", "15h", "16h"]
    shares = [one.find_figure("knowing") or 0.0 for one in outcome.rounds]
    assert shares == sorted(shares) and 1 / 30 <= shares[0] < shares[-1]
    assert outcome.to_document()["turns"]["ok"] > 100
    assert (outcome.directory / "surveys").is_dir()


async def test_a_sweep_varies_the_config_of_an_environment(tmp_path: Path) -> None:
    document = read("public_goods.yaml", tmp_path, population={"groups": PLAYERS})
    del document["stop"]
    document["experiment"]["rounds"] = 1
    sweep = {"grid": {"world.environments[0].config.factor": [1, 2]}, "common_seeds": True}
    swept = await run_sweep(document | {"sweep": sweep})
    shares = {}
    for one in swept.runs:
        (played,) = read_rounds(swept.directory / one.name)
        shares[played.figures["share"]] = played.figures["mean"]
    (low, mean), (high, same) = sorted(shares.items())
    assert mean == same and high == 2 * low == 2 * mean  # type: ignore[operator]


async def test_what_a_server_does_not_know_is_told(tmp_path: Path) -> None:
    document = read("public_goods.yaml", tmp_path)
    document["world"] = {"environments": [{"path": "/goods", "kind": "public_goods"}]}
    with pytest.raises(ExperimentError, match="/goods: the server knows no kind public_goods"):
        await play(document)
    document["world"] = {"environments": [{"path": "/goods", "kind": "chat_room"}]}
    with pytest.raises(ExperimentError, match="its kind chat_room has no operation open_round"):
        await play(document)


def test_a_check_knows_kinds_and_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert check_spec(EXAMPLES / "public_goods.yaml").problems == ()
    assert check_spec(EXAMPLES / "rumour.yaml").problems == ()
    path = tmp_path / "spec.yaml"
    text = (EXAMPLES / "public_goods.yaml").read_text(encoding="utf-8")

    def find(old: str, new: str) -> list[str]:
        path.write_text(text.replace(old, new), encoding="utf-8")
        assert old in text
        return [str(problem) for problem in check_spec(path).problems]

    (told,) = find('"public_goods:PublicGoods"', '"public_good:PublicGoods"')
    assert (
        told.startswith("line 9: world.behaviours[0]: ") and "cannot be loaded: No module named 'public_good'" in told
    )
    (told,) = find("kind: public_goods", "kind: publik_goods")
    assert "did you mean public_goods?" in told and told.startswith("line 12: ")
    (told,) = find("rounds: 10", "rounds: 10\n  figures: {a: {path: /goods, operation: open_round}}")
    assert "open_round may change the world" in told
    (told,) = find("kind: public_goods", "kind: auction")
    assert "its kind has no operation open_round" in told


def test_what_does_not_fit_together_is_told_at_its_place(tmp_path: Path) -> None:
    document = read("rumour.yaml", tmp_path)

    def find(**changes: Any) -> str:
        with pytest.raises(SpecError) as caught:
            parse_spec(document | changes)
        return "; ".join(map(str, caught.value.problems))

    experiment = document["experiment"]
    assert "experiment.clock: no environment is at /nowhere" in find(experiment=experiment | {"clock": "/nowhere"})
    assert "experiment.until: is not after 8h" in find(experiment=experiment | {"until": "7h"})
    assert "rounds is for environment" in find(experiment=experiment | {"rounds": 3})
    assert "give game or experiment" in find(game={"rounds": 3})
    assert "at most 1,000 rounds" in find(experiment=experiment | {"every": "1s"})
    group = {"name": "a", "agent": "level-k", "count": 1, "parameters": {"level": 1}}
    assert "level-k plays the guess game" in find(population={"groups": [group]})
    group = {"name": "a", "agent": "rumour:Stroller", "count": 1, "first_wake": "7h"}
    assert "is before 8h, where the clock of /square begins" in find(population={"groups": [group]})
    (square,) = document["world"]["environments"]
    placed = square | {"each_agent": {"position": "node"}}
    assert "needs a space that is a network" in find(world=document["world"] | {"environments": [placed]})
    manual = square | {"clock": {"mode": "manual"}}
    assert "has no event-driven clock" in find(world=document["world"] | {"environments": [manual]})


def test_what_the_page_says_of_specs_is_so() -> None:
    page = (EXAMPLES.parent / "docs" / "worlds.md").read_text(encoding="utf-8")
    population = {"groups": [{"name": "a", "agent": "mine:Own", "count": 3}]}
    square = {"environments": [{"path": "/square", "clock": {}}]}
    blocks = [read_yaml(block)[0] for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    assert len(blocks) == 4
    for block in blocks:
        assert isinstance(block, dict)
        world = block.get("world", square if "clock" in block.get("experiment", {}) else blocks[0]["world"])
        parse_spec(
            {"name": "x", "population": population, "experiment": blocks[0]["experiment"]} | block | {"world": world}
        )


async def test_a_world_is_made_as_its_spec_says_also_beside_the_guess_game(tmp_path: Path) -> None:
    market = {
        "path": "/town/market",
        "clock": {},
        "space": {"network": "friends"},
        "each_agent": {"attribute": "age", "position": "node"},
        "entries": [{"key": "größe", "value": {"数": 1}, "position": [3]}],
    }
    lab = {
        "path": "/lab",
        "clock": {"mode": "manual", "start": "1h"},
        "space": {"plane": {"x_max": 2, "y_max": 3}},
        "each_agent": {"groups": ["b"], "value": [1, None], "position": "random"},
    }
    document = {
        "name": "mixed",
        "world": {"environments": [market, lab]},
        "population": {
            "attributes": {"age": {"integers": {"low": 20, "high": 60}}},
            "networks": {"friends": {"small_world": {"neighbours": 4, "rewired": 0.1}}},
            "groups": [
                {"name": "a", "agent": "level-k", "count": 10, "parameters": {"level": 1}},
                {"name": "b", "agent": "random", "count": 5},
            ],
        },
        "game": {"rounds": 1},
        "recording": {"directory": str(tmp_path)},
    }
    outcome = await play(document)
    assert [one.reported for one in outcome.rounds] == [15]
    ages = pq.read_table(outcome.directory / "profiles.parquet").to_pylist()
    with ServerProcess(outcome.directory / "world") as server:
        async with connect(server.address, outcome.manifest.world) as world:
            square, plane = world.environment("/town/market"), world.environment("/lab")
            for node, row in enumerate(ages):
                entry = await square.get(row["agent"])
                assert (entry.value, entry.position) == (row["age"], (float(node),))
            entry = await square.get("größe")
            assert (entry.value, entry.position) == ({"数": 1}, (3.0,))
            assert not (await square.clock().state()).paused
            assert (await plane.clock().state()).now_ns == 3_600_000_000_000
            placed = [one async for one in plane.entries()]
            assert [one.key for one in placed] == [row["agent"] for row in ages if row["group"] == "b"]
            assert all(one.value == [1, None] and one.position is not None for one in placed)
            assert len({one.position for one in placed}) == 5


FAULTY = """
from env_server.behaviours import RoundGame
from agent_runtime.agents.agent import Agent

class Faulty(RoundGame):
    kind = "faulty"

    async def settle(self, ctx, number, reports):
        {settle}

class Silent(Agent):
    async def on_event(self, event, turn):
        pass
"""


@pytest.mark.parametrize(
    ("settle", "kind", "told"),
    [
        (
            "return ctx.no_such_thing",
            DefectError,
            r"operation close_round: AttributeError: .+ \(faulty\.py, line 9,",
        ),
        ("ctx.set('a/b', 1); return {}", RefusedRoundError, "/e: close_round is refused: key: .* as 'a/b' does"),
        ("ctx.refuse('closed', 'not today')", RefusedRoundError, "/e: close_round is refused: .*not today"),
    ],
)
async def test_what_is_wrong_in_a_behaviour_is_told_to_who_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settle: str, kind: type[Exception], told: str
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY.format(settle=settle), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    document = {
        "name": "faulty",
        "world": {"behaviours": ["faulty:Faulty"], "environments": [{"path": "/e", "kind": "faulty"}]},
        "population": {"groups": [{"name": "all", "agent": "faulty:Silent", "count": 1}]},
        "experiment": {"environment": "/e", "rounds": 1},
        "recording": {"directory": str(tmp_path / "runs")},
    }
    with pytest.raises(kind, match=told):
        await play(document)

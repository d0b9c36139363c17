"""A run as a story: a spec, a server, a runtime full of agents, rounds, records, a report."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest
from ecumene.cli import app
from ecumene.client.records import RunState, read_manifest
from ecumene.launch import ServiceEndedError
from ecumene.sim import GamePlan, RoundResult, RunOptions, RunOutcome, parse_spec, run

from tests.journey.conftest import RunningServer

ANSWER_WITHOUT_NUMBER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Who knows?"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}


class Silent:
    """An observer to whom nothing matters; tests override what does."""

    def stage_began(self, stage: str) -> None:
        """Ignore it."""

    def directory_chosen(self, directory: Path) -> None:
        """Ignore it."""

    def run_began(self, run_id: str, directory: Path, plan: GamePlan, rounds_done: int) -> None:
        """Ignore it."""

    def round_opened(self, round_number: int) -> None:
        """Ignore it."""

    def reports_counted(self, round_number: int, reported: int) -> None:
        """Ignore it."""

    def round_closed(self, result: RoundResult) -> None:
        """Ignore it."""


def make_spec(directory: Path, groups: Sequence[dict[str, Any]], **parts: Any) -> Any:
    """A spec of two rounds, unless `parts` say otherwise."""
    document: dict[str, Any] = {
        "name": "story",
        "population": {"groups": groups},
        "game": {"rounds": 2, "deadline_s": 60},
        "recording": {"directory": str(directory)},
    }
    return parse_spec(document | parts)


async def play(spec: Any, observer: Silent | None = None, server: str | None = None) -> RunOutcome:
    """Run a spec."""
    return await run(spec, observer=observer or Silent(), options=RunOptions(server=server))


def test_the_demo_plays_five_rounds_whose_means_fall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["demo", "--agents", "50", "--out", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    means = [row["mean"] for row in shown["rounds"]]
    assert len(means) == 5
    assert all(later < earlier for earlier, later in itertools.pairwise(means))
    assert shown["turns"] == {"ok": 250}
    assert Path(shown["plot"]).read_bytes().startswith(b"\x89PNG")
    manifest = read_manifest(Path(shown["directory"]))
    assert (manifest.state, manifest.counts["turns"], manifest.counts["actions"]) == (RunState.DONE, 250, 250)
    assert manifest.counts["events"] > 250


def test_the_demo_shows_a_table_and_where_everything_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["demo", "--agents", "20", "--rounds", "2", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "20 of 20" in shown.out
    assert "rounds.png" in shown.out
    assert "not a reproduction" in shown.out or "reproduces nobody" in shown.out
    assert "round 2: mean" in shown.err


async def test_a_level_k_population_gives_the_number_of_theory_exactly(tmp_path: Path) -> None:
    for level in range(4):
        groups = [{"name": "all", "agent": "level-k", "count": 9, "parameters": {"level": level}}]
        outcome = await play(make_spec(tmp_path, groups, name=f"level-{level}", game={"rounds": 1}))
        assert outcome.rounds[0].mean == (2 / 3) ** level * 50
        assert outcome.report.rows[0].mean == pytest.approx((2 / 3) ** level * 50, abs=1e-12)


async def test_the_winning_number_is_ratio_times_the_mean_of_what_was_recorded(tmp_path: Path, seed: int) -> None:
    groups = [
        {"name": "random", "agent": "random", "count": 60},
        {"name": "noisy", "agent": "noisy-level-k", "count": 40, "parameters": {"level": 2, "deviation": 9}},
    ]
    outcome = await play(make_spec(tmp_path, groups, seed=seed % 2**31, game={"rounds": 3, "ratio": 0.5, "offset": 5}))
    actions = ds.dataset(outcome.directory / "actions").to_table().to_pylist()
    for told in outcome.rounds:
        numbers = [row["value_double"] for row in actions if row["round"] == told.round]
        assert len(numbers) == 100
        assert told.winning_number == pytest.approx(0.5 * math.fsum(numbers) / 100 + 5, abs=1e-9)
        distance = abs(told.winner_number - told.winning_number)  # type: ignore[operator]
        assert distance == min(abs(number - told.winning_number) for number in numbers)  # type: ignore[operator]


async def test_failed_turns_are_counted_and_shown_and_not_in_the_mean(
    tmp_path: Path, useless_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [
        {"name": "rule", "agent": "level-k", "count": 5, "parameters": {"level": 1}},
        {"name": "asked", "agent": "prompted", "count": 3},
    ]
    model = {"provider": "openai", "name": "useless", "endpoint": useless_model}
    outcome = await play(make_spec(tmp_path, groups, model=model, game={"rounds": 1, "deadline_s": 60}))
    (told,) = outcome.rounds
    assert (told.reported, told.failed, told.missing, told.mean) == (5, 3, 0, 2 / 3 * 50)
    (row,) = outcome.report.rows
    assert row.statuses == {"ok": 5, "parse_error": 3}
    assert row.mean == told.mean


@pytest.mark.parametrize("moment", ["while a round is open", "between two rounds"])
async def test_a_server_that_is_killed_and_comes_back_changes_nothing(
    tmp_path: Path, server: RunningServer, moment: str
) -> None:
    class Saboteur(Silent):
        """Kills the server at the moment, and starts it again."""

        def round_opened(self, round_number: int) -> None:
            """Perhaps now."""
            self.strike(moment == "while a round is open" and round_number == 2)

        def round_closed(self, result: RoundResult) -> None:
            """Or now."""
            self.strike(moment == "between two rounds" and result.round == 1)

        def strike(self, is_the_moment: bool) -> None:
            """Down and up."""
            if is_the_moment:
                server.kill()
                server.start()

    groups = [{"name": "all", "agent": "level-k", "count": 40, "parameters": {"level": 1}}]
    spec = make_spec(tmp_path, groups, game={"rounds": 3, "deadline_s": 60})
    outcome = await play(spec, Saboteur(), server.address)
    assert [told.generation for told in outcome.rounds] == [1, 2, 3]
    assert [told.reported for told in outcome.rounds] == [40, 40, 40]
    assert [told.mean for told in outcome.rounds] == pytest.approx([50 * (2 / 3) ** k for k in (1, 2, 3)], abs=1e-9)
    assert outcome.manifest.counts["turns"] == 120


async def test_two_runs_may_follow_each_other_in_one_world(tmp_path: Path, server: RunningServer) -> None:
    groups = [{"name": "all", "agent": "level-k", "count": 10, "parameters": {"level": 1}}]
    spec = make_spec(tmp_path, groups, world="main")

    class Stages(Silent):
        """Remembers what is told of a game that goes on."""

        def __init__(self) -> None:
            self.told: list[str] = []

        def stage_began(self, stage: str) -> None:
            if "of this game" in stage:
                self.told.append(stage)

    stages = Stages(), Stages()
    first = await play(spec, stages[0], server=server.address)
    second = await play(spec, stages[1], server=server.address)
    assert [len(one.told) for one in stages] == [0, 1]
    assert stages[1].told[0].startswith("world main has played 2 rounds of this game")
    assert [told.round for told in (*first.rounds, *second.rounds)] == [1, 2, 3, 4]
    assert {first.manifest.world, second.manifest.world} == {"main"}
    assert [row.round for row in second.report.rows] == [3, 4]
    assert first.directory != second.directory


async def test_a_runtime_that_dies_fails_the_run_in_one_line_and_keeps_it(tmp_path: Path) -> None:
    class Killer(Silent):
        """Kills the runtime when the first round is over."""

        directory = Path()

        def directory_chosen(self, directory: Path) -> None:
            """Remember where it is."""
            self.directory = directory

        def round_closed(self, result: RoundResult) -> None:
            """Now; rounds may go on until the loss is noticed, and then it is a zombie."""
            for child in psutil.Process().children():
                if child.status() != psutil.STATUS_ZOMBIE and "runtime" in child.cmdline():
                    child.kill()

    killer = Killer()
    groups = [{"name": "all", "agent": "random", "count": 20}]
    with pytest.raises(ServiceEndedError, match="runtime ended with signal 9"):
        await asyncio.wait_for(play(make_spec(tmp_path, groups, game={"rounds": 500}), killer), 60)
    manifest = read_manifest(killer.directory)
    assert manifest.state == RunState.FAILED
    assert "runtime ended" in manifest.note
    assert manifest.counts["events"] > 0


def test_a_spec_on_disk_runs_and_a_wrong_one_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(
        "name: file\npopulation:\n  groups:\n    - {name: all, agent: equilibrium, count: 5}\ngame: {rounds: 1}\n",
        encoding="utf-8",
    )
    assert app.main(["run", str(good), "--out", str(tmp_path / "runs"), "--seed", "9", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["seed"], shown["rounds"][0]["mean"]) == (9, 0.0)
    bad = tmp_path / "bad.yaml"
    bad.write_text(good.read_text(encoding="utf-8").replace("rounds: 1", "round: 1"), encoding="utf-8")
    assert app.main(["run", str(bad)]) == 2
    assert "game.round: unknown field; did you mean rounds?" in capsys.readouterr().err


@pytest.fixture
def useless_model() -> Iterator[str]:
    """The base URL of a model that answers everything with the same prose."""

    class Handler(BaseHTTPRequestHandler):
        """Answers."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """The same answer to all."""
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(ANSWER_WITHOUT_NUMBER).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.daemon_threads = True
    thread = threading.Thread(target=endpoint.serve_forever, name="useless model")
    thread.start()
    yield f"http://127.0.0.1:{endpoint.server_port}/v1"
    endpoint.shutdown()
    endpoint.server_close()
    thread.join()

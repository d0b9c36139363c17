"""`ecumene resume`: a run comes to what it would have come to, wherever it was killed, interrupted, or out of money.

Case 36: a run of many hours was lost with its process.
"""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import signal
from pathlib import Path

import pytest
from ecumene.client import connect
from ecumene.client.records import RunDigest, RunState, read_manifest

from tests.faults.run_processes import (
    WORLD,
    RunProcess,
    count_events,
    digest_own_world,
    digest_run,
    find_run,
    read_rows,
    write_spec,
)
from tests.services import ServerProcess

RULE, PROMPTED, ROUNDS = 30, 8, 3
EVENTS_MAX = 250
"""About as many as one life of the run makes, from its launch on."""
STAGES = ("starting the server", "launching the agents", "38 agents play", "round 1:", "round 2:", "stopping")
LAST_STAGE = "writing the report"


def write(folder: Path, **more: object) -> Path:
    """The spec that all play here."""
    folder.mkdir(exist_ok=True)
    return write_spec(folder, rule=RULE, prompted=PROMPTED, rounds=ROUNDS, **more)


async def play_own(folder: Path) -> RunDigest:
    """Without an interruption, on a server of its own."""
    running = await RunProcess.start("run", str(write(folder)))
    assert await running.wait() == 0, running.errors
    return await digest_own_world(find_run(folder))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunDigest:
    """Of the run that nobody interrupts."""
    return asyncio.run(play_own(tmp_path_factory.mktemp("plain")))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kills", "workers"), [(2, 1), pytest.param(40, 4, marks=pytest.mark.long)])
async def test_killed_with_its_server_after_any_event_a_run_comes_to_the_same(
    tmp_path: Path, seed: int, plain: RunDigest, kills: int, workers: int
) -> None:
    chance = random.Random(seed)
    spec = write(tmp_path / "run", world=WORLD)
    command = ["run", str(spec), "--workers", str(workers)]
    killed = 0
    with ServerProcess(tmp_path / "data") as server:
        async with connect(server.address, WORLD, create=True):
            pass
        while True:
            running = await RunProcess.start(*command, "--server", server.address)
            if killed == kills:
                assert await running.wait() == 0, running.errors
                break
            if not await count_events(server.address, chance.randint(1, EVENTS_MAX // (1 + killed)), running):
                assert await running.wait() == 0, running.errors
                break
            server_first = chance.random() < 0.5
            if server_first:
                server.kill()
            await running.kill()
            if not server_first:
                server.kill()
            killed += 1
            server.start()
            command = ["resume", str(find_run(tmp_path / "run"))]
        directory = find_run(tmp_path / "run")
        assert await digest_run(directory, server.address, WORLD) == plain
    check_whole(directory)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([(STAGES[1], False), (STAGES[2], True), (STAGES[3], False)], id="some"),
        pytest.param([(stage, False) for stage in (*STAGES, LAST_STAGE)], id="all", marks=pytest.mark.long),
        pytest.param([(stage, True) for stage in (*STAGES, LAST_STAGE)], id="conductor", marks=pytest.mark.long),
    ],
)
async def test_killed_in_any_stage_a_run_comes_to_the_same(
    tmp_path: Path, plain: RunDigest, kills: list[tuple[str, bool]]
) -> None:
    command = ["run", str(write(tmp_path))]
    for stage, is_alone in kills:
        running = await RunProcess.start(*command)
        assert await running.wait_line(stage), running.errors
        await running.kill(alone=is_alone)
        command = ["resume", str(find_run(tmp_path))]
    running = await RunProcess.start(*command)
    assert await running.wait() == 0, running.errors
    directory = find_run(tmp_path)
    assert await digest_own_world(directory) == plain
    check_whole(directory)
    again = await RunProcess.start(*command)
    assert await again.wait() == 2
    assert "the run is done" in again.errors


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.long) for number in (signal.SIGHUP, signal.SIGINT))],
)
async def test_a_run_that_is_told_to_end_writes_its_summary_and_can_be_gone_on_with(
    tmp_path: Path, plain: RunDigest, number: int
) -> None:
    running = await RunProcess.start("run", str(write(tmp_path)))
    assert await running.wait_line("round 1:")
    running.signal(number)
    assert await running.wait() == 130
    directory = find_run(tmp_path)
    assert running.errors.splitlines()[-1].strip() == f"go on with it: ecumene resume {directory}"
    assert read_manifest(directory).state is RunState.INTERRUPTED
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary["state"] == "interrupted"
    assert len(summary["rounds"]) >= 1
    assert await (resumed := await RunProcess.start("resume", str(directory))).wait() == 0, resumed.errors
    assert await digest_own_world(directory) == plain


@pytest.mark.timeout(300)
async def test_a_run_that_is_conducted_is_conducted_by_nobody_else(tmp_path: Path) -> None:
    running = await RunProcess.start("run", str(write(tmp_path, game={"rounds": 500, "deadline_s": 300})))
    try:
        assert await running.wait_line("38 agents play")
        other = await RunProcess.start("resume", str(find_run(tmp_path)))
        assert await other.wait() == 2
        assert f"process {running.pid} conducts it" in other.errors
    finally:
        await running.kill()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "raised", [("100000",), pytest.param(("1000", "2000", "3000", "4000", "100000"), marks=pytest.mark.long)]
)
async def test_a_spent_budget_stops_a_run_before_a_turn_is_lost_and_a_larger_one_goes_on(
    tmp_path: Path, plain: RunDigest, raised: tuple[str, ...]
) -> None:
    budget = {"tokens_max": 1_000}
    running = await RunProcess.start("run", str(write(tmp_path, budget=budget)))
    assert await running.wait() == 3, running.errors
    directory = find_run(tmp_path)
    manifest = read_manifest(directory)
    assert manifest.state is RunState.STOPPED_BY_BUDGET
    message, hint = running.errors.splitlines()[-2:]
    assert message.startswith("ecumene: the budget of 1,000 tokens is spent: the run has taken ")
    assert hint.strip() == f"go on with it: ecumene resume {directory} --tokens-max 2000"
    assert {row["status"] for row in read_rows(directory, "turns", ["status"])} <= {"ok", "cancelled"}
    spent = sum(
        row["prompt_tokens"] + row["completion_tokens"]
        for row in read_rows(directory, "calls", ["prompt_tokens", "completion_tokens"])
    )
    assert 0 < spent <= 1_000
    assert f"has taken {spent:,} tokens" in message
    for tokens_max in raised:
        more = await RunProcess.start("resume", str(directory), "--tokens-max", tokens_max)
        assert await more.wait() == (0 if tokens_max == raised[-1] else 3), more.errors
    assert await digest_own_world(directory) == plain
    check_whole(directory)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("single", [False, True], ids=["several models", "one model"])
async def test_the_command_that_is_told_for_a_spent_budget_of_a_model_goes_on(tmp_path: Path, single: bool) -> None:
    # Both models have one name at their endpoint, and the group asks at a temperature of its own.
    model = {"provider": "scripted", "name": "tiny", "max_tokens": 64}
    dear = model | {"price": {"completion": 1_000_000}, "microdollars_max": 66}
    models = {"model": dear} if single else {"model": None, "models": {"quick": model, "careful": dear}}
    group = {"name": "asked", "agent": "prompted", "count": 8, "parameters": {"temperature": 0.2}}
    group |= {} if single else {"models": {"quick": 1, "careful": 1}}
    spec = write(tmp_path, population={"groups": [group]}, **models)
    called, microdollars = "tiny" if single else "careful", 66
    command = ["run", str(spec)]
    while await (running := await RunProcess.start(*command)).wait() == 3:
        message, hint = running.errors.splitlines()[-2:]
        assert f"the budget of {microdollars} microdollars of model {called} is spent" in message
        microdollars *= 2
        words = shlex.split(hint.partition(": ")[2])
        assert words[0] == "ecumene"
        assert words[-2:] == ["--microdollars-max", f"{called}={microdollars}"]
        command = words[1:]
    assert microdollars > 66
    assert read_manifest(find_run(tmp_path)).state is RunState.DONE, running.errors


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_replay_that_is_killed_comes_to_what_was_recorded(tmp_path: Path) -> None:
    kept = {"directory": str(tmp_path / "told" / "runs"), "bodies": True}
    recorded = await RunProcess.start("run", str(write(tmp_path / "told", recording=kept)))
    assert await recorded.wait() == 0, recorded.errors
    told = find_run(tmp_path / "told")
    model = {"provider": "replay", "name": "scripted", "max_tokens": 64, "replay_from": str(told)}
    command = ["run", str(write(tmp_path / "again", model=model))]
    for stage in ("38 agents play", "round 1:"):
        running = await RunProcess.start(*command)
        assert await running.wait_line(stage), running.errors
        await running.kill()
        command = ["resume", str(find_run(tmp_path / "again"))]
    last = await RunProcess.start(*command)
    assert await last.wait() == 0, last.errors
    directory = find_run(tmp_path / "again")
    check_whole(directory)
    assert await digest_own_world(directory) == await digest_own_world(told)


def check_whole(directory: Path) -> None:
    """The summary tells each turn once, and all of them were taken."""
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary["state"] == "done"
    assert summary["turns"] == {"ok": (RULE + PROMPTED) * ROUNDS}
    assert [row["reported"] for row in summary["rounds"]] == [RULE + PROMPTED] * ROUNDS
    assert [row["target"] for row in summary["rounds"]] == pytest.approx([row["told"] for row in summary["rounds"]])
    events = read_rows(directory, "events", ["revision", "index", "type", "path", "key"])
    assert len({(row["revision"], row["index"]) for row in events}) == len(events)
    reports = [row for row in events if row["path"] == "/game/reports" and row["type"] == "entry_set"]
    assert len(reports) == (RULE + PROMPTED) * ROUNDS

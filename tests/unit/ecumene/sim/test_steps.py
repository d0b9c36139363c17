"""Steps of a model on a real server: who is asked, what is told, and what can go wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene import EventType, World
from ecumene.sim.steps import STEP_KEY, AgentsFailedError, StepLateError, Steps, StepTakenError

from tests.services import ServerProcess

AGENTS = ("b", "a", "c")
PATH = "/run"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Of the conductor."""
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as opened:
            yield opened


@asynccontextmanager
async def living(
    world: World, decide: Callable[[str, Any], Any], agents: Sequence[str] = AGENTS
) -> AsyncIterator[list[Any]]:
    """Agents that report what `decide` says of their id and what was told; None = nothing. Gives all that was told."""
    heard: list[Any] = []
    await world.environment(PATH).register(if_absent=True)

    async def live() -> None:
        async with world.environment(PATH).watch(types=[EventType.ENTRY_SET], key_glob=STEP_KEY) as watch:
            listening.set()
            async for event in watch:
                told: Any = event.value
                heard.append(told)
                reports = world.environment(told["reports"])
                answers = {agent: decide(agent, told) for agent in agents}
                for agent, answer in answers.items():
                    if answer is not None:
                        await reports.set(agent, answer, gate_generation=told["generation"])

    listening = asyncio.Event()
    task = asyncio.create_task(live(), name="agents")
    await listening.wait()
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_step_asks_everybody_once_and_gives_their_reports_in_order(world: World) -> None:
    async with (
        living(world, lambda agent, told: f"{agent}{told['n']}") as heard,
        Steps(world, PATH, AGENTS, seed=7) as steps,
    ):
        assert await steps.take({"n": 1}) == {"b": "b1", "a": "a1", "c": "c1"}
        assert list(await steps.take({"n": 2})) == list(AGENTS)
        assert steps.number == 2
    assert [(told["round"], told["seed"], told["n"]) for told in heard] == [(1, 7, 1), (2, 7, 2)]


async def test_digests_are_equal_if_all_that_was_told_and_said_is(world: World) -> None:
    async def digest(path: str, told: Any, seed: int = 1) -> str:
        await world.environment(path).register()
        async with Steps(world, f"{path}/x", AGENTS, seed=seed) as steps:

            async def answer() -> None:
                async with steps_told.watch(types=[EventType.ENTRY_SET], initial_state=True) as watch:
                    async for event in watch:
                        document: Any = event.value
                        if event.key == STEP_KEY:
                            for agent in reversed(AGENTS):
                                await steps_told.child("reports").set(agent, document["n"])

            steps_told = world.environment(f"{path}/x")
            task = asyncio.create_task(answer(), name="agents")
            try:
                for n in told:
                    await steps.take({"n": n})
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return steps.digest

    first = await digest("/one", [1, 2])
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert await digest("/two", [1, 2]) == first
    assert await digest("/three", [1, 3]) != first
    assert await digest("/four", [1]) != first


async def test_who_is_late_is_named_and_the_step_stays_open(world: World) -> None:
    async with (
        living(world, lambda agent, told: None if agent == "a" else 1),
        Steps(world, PATH, AGENTS, seed=1, timeout_s=0.5) as steps,
    ):
        with pytest.raises(StepLateError) as late:
            await steps.take({})
        assert late.value.missing == ["a"]
        await world.environment(f"{PATH}/reports").set("a", 2)
        taken = await steps.take_up()
        assert taken is not None and taken[1] == {"b": 1, "a": 2, "c": 1}


async def test_turns_that_failed_end_the_run_and_are_not_left_out(world: World) -> None:
    async with (
        living(world, lambda agent, told: {"status": "timeout"} if agent == "c" else 1),
        Steps(world, PATH, AGENTS, seed=1) as steps,
    ):
        with pytest.raises(AgentsFailedError) as failed:
            await steps.take({})
        assert failed.value.statuses == {"c": "timeout"}


async def test_a_stranger_who_reports_takes_nobodys_place(world: World) -> None:
    async with (
        living(world, lambda agent, told: 1, agents=("a", "b", "stranger")),
        Steps(world, PATH, AGENTS, seed=1) as steps,
    ):
        with pytest.raises(StepLateError) as late:
            await steps.take({})
        assert late.value.missing == ["c"]
    # Nor does one who takes it later: what somebody said in an earlier step is no report of this one.
    async with (
        living(world, lambda agent, told: 1, agents=("a", "b", "stranger")),
        Steps(world, PATH, AGENTS, seed=1) as steps,
    ):
        await world.environment(f"{PATH}/reports").set("c", 0)
        with pytest.raises(StepLateError):
            await steps.take({})


async def test_a_report_that_was_moved_in_a_space_since_is_no_later_one(world: World) -> None:
    async with (
        living(world, lambda agent, told: 1, agents=("a", "b")),
        Steps(world, PATH, AGENTS, seed=1) as steps,
        world.environment(PATH).watch(types=[EventType.ENTRY_SET], key_glob=STEP_KEY) as told,
    ):
        reports = world.environment(f"{PATH}/reports")
        await reports.change(space=ecumene.Grid(3, 3))
        taking = asyncio.create_task(steps.take({}), name="first step")
        await anext(told)
        await reports.set("c", 1)
        await taking
        taking = asyncio.create_task(steps.take({}), name="second step")
        await anext(told)
        await reports.move("c", (1, 1))
        moved = await reports.get("c")
        assert moved.create_revision == moved.value_revision < moved.modify_revision
        await reports.set("stranger", 1)
        with pytest.raises(StepLateError) as late:
            await taking
        assert late.value.missing == ["c"]
        await reports.set("c", 2)
        assert (await reports.get("c")).value_revision > moved.modify_revision


async def test_another_conductor_goes_on_where_the_last_one_is_gone(world: World) -> None:
    async with living(world, lambda agent, told: told["n"] * 10) as heard:
        async with Steps(world, PATH, AGENTS, seed=5) as steps:
            assert await steps.take_up() is None
            await steps.take({"n": 1})
            first = steps.digest
            await steps.take({"n": 2})
        async with Steps(world, PATH, AGENTS, seed=0) as again:
            taken = await again.take_up()
            assert taken == ({"n": 2}, dict.fromkeys(AGENTS, 20))
            assert (again.number, again.seed, again.digest) == (2, 5, steps.digest) and first != steps.digest
            assert (await again.take({"n": 3}))["a"] == 30
    assert [told["round"] for told in heard] == [1, 2, 3]


async def test_a_step_that_was_begun_but_not_told_is_begun_anew(world: World) -> None:
    async with living(world, lambda agent, told: told["n"] * 10) as heard:
        async with Steps(world, PATH, AGENTS, seed=5) as steps:
            await steps.take({"n": 1})
            await world.environment(f"{PATH}/reports").begin_generation("step", count_target=3)
        async with Steps(world, PATH, AGENTS, seed=5, timeout_s=10) as again:
            assert await again.take_up() == ({"n": 1}, dict.fromkeys(AGENTS, 10))
            assert again.digest == steps.digest
            assert await again.take({"n": 2}) == dict.fromkeys(AGENTS, 20)
    assert [told["round"] for told in heard] == [1, 2]


async def test_all_values_of_a_world_may_be_reported(world: World) -> None:
    answers = {"a": b"bytes", "b": [1, {"x": None}], "c": 2.5}
    async with living(world, lambda agent, told: answers[agent]), Steps(world, PATH, AGENTS, seed=5) as steps:
        assert await steps.take({}) == answers


async def test_two_conductors_of_one_run_are_told(world: World) -> None:
    async with (
        living(world, lambda agent, told: 1),
        Steps(world, PATH, AGENTS, seed=1) as one,
        Steps(world, PATH, AGENTS, seed=1) as other,
    ):
        await one.take({})
        with pytest.raises(StepTakenError):
            await other.take({})


async def test_what_cannot_be_told_or_asked_is_refused_before_anything_is_sent(world: World) -> None:
    for agents in ((), ("a", "a")):
        with pytest.raises(ValueError, match="each once"):
            Steps(world, PATH, agents, seed=1)
    async with Steps(world, PATH, AGENTS, seed=1) as steps:
        with pytest.raises(ValueError, match="generation, seed"):
            await steps.take({"seed": 2, "generation": 1})
        assert await world.environment(PATH).value(STEP_KEY) is None


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ({"n": float("nan")}, ecumene.InvalidValueError),
        ({"n": b"bytes"}, ecumene.InvalidValueError),
        ({"n": {1, 2}}, ecumene.InvalidValueError),
        ({"n": "x" * 5_000_000}, ecumene.LimitExceededError),
        ({"n": "x" * 1_500_000}, ecumene.LimitExceededError),
        ({"n": "no number"}, ecumene.SchemaMismatchError),
    ],
    ids=["nan", "bytes", "set", "beyond a frame", "beyond a value", "against the schema"],
)
async def test_a_step_that_cannot_be_told_does_not_count(world: World, told: Any, error: type[Exception]) -> None:
    numbers = {"properties": {"n": {"type": "integer"}}}
    run = world.environment(PATH)
    if error is ecumene.SchemaMismatchError:
        await run.register(entry_schema=numbers)
    async with living(world, lambda agent, told: told["n"]) as heard, Steps(world, PATH, AGENTS, seed=1) as steps:
        await steps.take({"n": 1})
        gate = (await world.environment(f"{PATH}/reports").aggregates()).gates["step"]
        digest = steps.digest
        with pytest.raises(error):
            await steps.take(told)
        assert (await world.environment(f"{PATH}/reports").aggregates()).gates["step"] == gate
        assert (steps.number, steps.digest) == (1, digest)
        assert await steps.take({"n": 2}) == dict.fromkeys(AGENTS, 2)
    assert [told["round"] for told in heard] == [1, 2]


@pytest.mark.parametrize("is_done", [False, True], ids=["lost on the way", "answer lost"])
@pytest.mark.parametrize("again", [False, True], ids=["same conductor", "another"])
async def test_a_conductor_that_hears_no_answer_takes_up_what_was_begun(
    world: World, monkeypatch: pytest.MonkeyPatch, is_done: bool, again: bool
) -> None:
    commit = ecumene.Transaction.commit

    async def lose(transaction: ecumene.Transaction) -> Any:
        if is_done:
            await commit(transaction)
        raise ecumene.ClosedError

    async with living(world, lambda agent, told: told["n"] * 10) as heard:
        async with Steps(world, PATH, AGENTS, seed=5) as steps:
            await steps.take({"n": 1})
            monkeypatch.setattr(ecumene.Transaction, "commit", lose)
            with pytest.raises(ecumene.ClosedError):
                await steps.take({"n": 2})
            monkeypatch.undo()
            if is_done:
                with pytest.raises(StepTakenError):
                    await steps.take({"n": 2})
            if not again:
                taken = await steps.take_up()
        if again:
            async with Steps(world, PATH, AGENTS, seed=0) as steps:
                taken = await steps.take_up()
                last = 2 if is_done else 1
                assert await steps.take({"n": last + 1}) == dict.fromkeys(AGENTS, 10 * (last + 1))
        assert taken == ({"n": 2 if is_done else 1}, dict.fromkeys(AGENTS, 20 if is_done else 10))
        told = [document["n"] for document in heard]
        assert told == list(range(1, len(told) + 1)), "nothing is told twice or left out"


async def test_a_step_is_told_and_counted_in_one_revision_and_goes_on_over_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as world:
            await world.environment(PATH).register()
            async with Steps(world, PATH, AGENTS, seed=5) as steps:
                watch = world.watch(ecumene.EventFilter(types=(EventType.ENTRY_SET, EventType.GATE_BEGUN)))
                step = asyncio.create_task(steps.take({"n": 1}), name="step")
                first, second = await anext(watch), await anext(watch)
                await watch.aclose()
                assert {first.type, second.type} == {EventType.ENTRY_SET, EventType.GATE_BEGUN}
                assert first.revision == second.revision
                server.kill()
                server.start()
                for agent in AGENTS:
                    await world.environment(f"{PATH}/reports").set(agent, 1, gate_generation=1)
                assert await step == dict.fromkeys(AGENTS, 1)

"""A turn is one op, whatever it does; what cannot be done is told once, then the fallback counts; nothing is harmed."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from ecumene import EventType, World, connect

from tests.promises.turn_stage import (
    HERE,
    MARKET,
    TRADING,
    Doer,
    Script,
    both,
    call,
    read_account,
    ring,
    say,
    scripted,
    sell,
    set_real_stage,
    take_again,
)
from tests.services import ServerProcess

DOER = f"{HERE}:Doer"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all; each test has a world of its own."""
    with ServerProcess(tmp_path_factory.mktemp("worlds") / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with connect(server.address, f"world-{uuid.uuid4().hex}", create=True) as opened:
        yield opened


async def changes_of(world: World, producer: str, through: int) -> list[Any]:
    """Everything that a producer changed."""
    found = []
    async with world.watch(from_revision=1) as watch:
        async for event in watch:
            if event.producer.partition("/")[0] == producer:
                found.append(event)
            if event.revision >= through:
                return found
    return found


async def test_an_operation_and_all_else_of_a_turn_are_one_revision(tmp_path: Path, world: World) -> None:
    Doer.plan(both(say("selling"), sell(10)))
    async with set_real_stage(tmp_path, world, DOER, ["ann"]) as stage:
        woken_by = await ring(world, stage)
    end = (await world.environment("/bell").set("end", 1)).revision
    changes = await changes_of(world, "ann", end)
    assert {change.revision for change in changes} == {changes[0].revision}
    assert {change.path for change in changes} == {"/bell", MARKET, "/runtime/runs/r/agents"}
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["observation_revision"]) == ("ok", woken_by)
    assert [(row["action"], row["key"], row["commit_revision"]) for row in stage.read("actions")] == [
        ("say", "said-by-ann", changes[0].revision),
        ("place", "place", changes[0].revision),
    ]


async def test_writes_carry_the_revision_the_cause_and_the_time_that_the_agent_saw(
    tmp_path: Path, world: World
) -> None:
    """The clock goes on while a model thinks: what is written names what was seen, not what the clock says then."""
    Doer.plan(both(say("selling"), sell(10)))
    async with set_real_stage(tmp_path, world, DOER, ["ann"], thinking={"ms": 0}) as stage:
        woken_by = await ring(world, stage)
    end = (await world.environment("/bell").set("end", 1)).revision
    changes = await changes_of(world, "ann", end)
    (rung,) = [event for event in await changes_of(world, world.client_id, end) if event.revision == woken_by]
    assert len(changes) >= 3
    for change in changes:
        assert (change.producer_seq, change.cause) == (woken_by, rung.id)
    (turn,) = stage.read("turns")
    for row in (turn, *stage.read("actions")):
        assert (row["observation_revision"], row["observed_at_ns"]) == (woken_by, rung.wall_time_ns)
        assert row["sim_time_ns"] == rung.sim_time_ns
    assert turn["wall_time_ns"] > rung.wall_time_ns


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (lambda turn: turn.act("go", "/nowhere", "x", 1), "no environment /nowhere"),
        (lambda turn: turn.act("take", "/bell", "nothing", None, change="delete"), "no entry 'nothing' in /bell"),
        (lambda turn: turn.invoke(MARKET, "steal", trader="ann"), "has no operation 'steal'; it has account"),
        (lambda turn: turn.invoke(MARKET, "place", trader="ann"), "is a required property"),
        (lambda turn: turn.act("go", "no path", "x", 1), "does not begin with '/'"),
        (lambda turn: turn.act("go", "/polls", "x", "a text"), "is not of type"),
        (sell(10, quantity=50), "of corn are free"),
        (lambda turn: turn.act("add", "/bell", "round", 1.5, change="increment"), "round"),
        (both(sell(10), sell(11)), "runs one operation"),
    ],
    ids=["place", "entry", "operation", "arguments", "path", "schema", "refused", "kind", "two operations"],
)
@pytest.mark.parametrize("again", ["sound", "fallback", "nothing"])
async def test_what_cannot_be_done_is_told_once_with_the_reason(
    tmp_path: Path, world: World, plan: Any, told: str, again: str
) -> None:
    await world.environment("/polls").register(entry_schema={"type": "number"})
    Doer.plan(
        both(say("first"), plan), say("second") if again == "sound" else plan, {"fallback": say("third")}.get(again)
    )
    async with set_real_stage(tmp_path, world, DOER, ["ann", "bob"]) as stage:
        await ring(world, stage)
        assert len(Doer.told) == 2 and all(told in problem for problem in Doer.told), Doer.told
        said = await world.environment("/bell").value("said-by-ann")
        assert said == {"sound": "second", "fallback": "third", "nothing": None}[again]
        account = await read_account(world, "ann")
        assert account["goods"] == {"corn": 5} and account["cash"] == 100
        assert [entry.key async for entry in world.environment("/polls").entries()] == []
        # Nobody's next turn is the worse for it.
        Doer.plan(say("later"))
        await ring(world, stage, 2)
        assert await world.environment("/bell").value("said-by-ann") == "later"
    first = [row for row in stage.read("turns") if row["turn"] == 1]
    assert {row["status"] for row in first} == {{"sound": "ok", "fallback": "fallback", "nothing": "error"}[again]}
    assert {row["flags"] for row in first} == {"corrected"}
    assert all((row["reason"] is None) == (again == "sound") for row in first)
    assert {row["status"] for row in stage.read("turns") if row["turn"] == 2} == {"ok"}


async def test_a_refused_turn_that_is_taken_again_takes_the_same_way_once(tmp_path: Path, world: World) -> None:
    """A worker is gone after the commit: another one, which decides otherwise now, changes nothing more."""
    Doer.plan(sell(10, quantity=50), sell(10))
    (tmp_path / "a").mkdir()
    async with set_real_stage(tmp_path / "a", world, DOER, ["ann"], resumable=False) as stage:
        woken_by = await ring(world, stage)
    assert (await read_account(world, "ann"))["goods"] == {"corn": 4}
    Doer.plan(sell(12, quantity=60), sell(13, quantity=2))
    (tmp_path / "b").mkdir()
    async with take_again(tmp_path / "b", world, woken_by) as stage:
        await stage.wait_turns(1)
    assert (await read_account(world, "ann"))["goods"] == {"corn": 4}
    (turn,) = stage.read("turns")
    assert turn["status"] == "ok" and turn["reason"].startswith("adopted")


async def test_a_models_tools_read_at_once_and_act_with_the_turn(tmp_path: Path, world: World) -> None:
    Script.play(
        (call("account"), call("book", good="corn")),
        call("place", side="sell", good="corn", price=10, quantity=2),
        "I offered two.",
    )
    group = {"models": scripted(), "parameters": {"tools": [TRADING]}}
    async with set_real_stage(tmp_path, world, "prompted-agent", ["ann", "bob"], **group) as stage:
        await ring(world, stage)
        for name in ("ann", "bob"):
            assert (await read_account(world, name))["goods"] == {"corn": 3}
    assert stage.statuses == {"ok": 2}
    last = max((request for request in Script.asked if request.agent_id == "ann"), key=lambda request: request.call)
    roles = [message.role for message in last.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    ids = [item.id for message in last.messages for item in message.tool_calls]
    assert ids == ["call_1", "call_2", "call_3"]
    assert [message.tool_call_id for message in last.messages if message.role == "tool"] == ids
    replies = [message.content for message in last.messages if message.role == "tool"]
    assert '"cash": 100' in replies[0] and "takes effect when your turn ends" in replies[2]
    place = next(tool for tool in last.tools if tool.name == "place")
    assert "trader" not in place.parameters["properties"] and "trader" not in place.parameters["required"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (call("place", side="sell", good="corn", price=10), '"quantity" is a required property'),
        (call("place", side="sell", good="corn", price=10, quantity=2, trader_of="bob"), "trader_of"),
        (call("place", side="give", good="corn", price=10, quantity=1), "give"),
    ],
)
async def test_a_models_bad_call_is_told_once_then_the_fallback_counts(
    tmp_path: Path, world: World, bad: Any, told: str
) -> None:
    parameters: dict[str, Any] = {"tools": [TRADING], "fallback": {"nothing": True}}
    Script.play(bad, call("place", side="sell", good="corn", price=10, quantity=1), "Done.")
    async with set_real_stage(
        tmp_path, world, "prompted-agent", ["ann"], models=scripted(), parameters=parameters
    ) as stage:
        await ring(world, stage)
        assert (await read_account(world, "ann"))["goods"] == {"corn": 4}
        assert told in Script.asked[1].messages[-1].content
        Script.play(bad)
        await ring(world, stage, 2)
        assert (await read_account(world, "ann"))["goods"] == {"corn": 4}
    by_turn = {row["turn"]: row for row in stage.read("turns")}
    assert (by_turn[1]["status"], by_turn[1]["flags"]) == ("ok", "corrected")
    assert (by_turn[2]["status"], by_turn[2]["flags"]) == ("fallback", "corrected")
    assert told in by_turn[2]["reason"]


async def test_a_market_that_refuses_is_answered_to_the_model_which_decides_again(tmp_path: Path, world: World) -> None:
    Script.play(
        call("place", side="sell", good="corn", price=10, quantity=50),
        "I offered fifty.",
        call("place", side="sell", good="corn", price=10, quantity=5),
        "I offered what I have.",
    )
    group = {"models": scripted(), "parameters": {"tools": [TRADING]}}
    async with set_real_stage(tmp_path, world, "prompted-agent", ["ann"], **group) as stage:
        await ring(world, stage)
        assert (await read_account(world, "ann"))["goods"] == {}
        memory = await world.environment("/runtime/runs/r/agents").value("ann")
    told = Script.asked[2].messages[-1]
    assert told.role == "user" and "cannot be done" in told.content and "are free" in told.content
    assert isinstance(memory, dict) and "50" in str(memory["memory"]) and "that was refused" in str(memory["memory"])
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["flags"], turn["attempts"]) == ("ok", "corrected", 4)


async def test_a_model_that_only_calls_tools_is_asked_a_bounded_number_of_times(tmp_path: Path, world: World) -> None:
    Script.play((call("account"),) * 20)
    parameters = {"tools": [TRADING], "tool_rounds_max": 3, "prompt_tokens_max": 2_000}
    async with set_real_stage(
        tmp_path, world, "prompted-agent", ["ann"], models=scripted(), parameters=parameters
    ) as stage:
        await ring(world, stage)
    assert stage.statuses == {"ok": 1} and len(Script.asked) == 3
    replies = [message.content for message in Script.asked[-1].messages if message.role == "tool"]
    assert len(replies) in (20, 40) and sum("at most 16" in reply for reply in replies) == len(replies) // 5


async def test_an_agent_is_not_woken_by_what_it_did_itself(tmp_path: Path, world: World) -> None:
    Script.play(call("place", side="sell", good="corn", price=10, quantity=1), "Done.")
    wake = [{"path": "/bell", "types": ["entry_set"]}, {"path": MARKET, "types": [EventType.ENTRY_SET.name.lower()]}]
    group = {"models": scripted(), "parameters": {"tools": [TRADING]}, "wake": wake}
    async with set_real_stage(tmp_path, world, "prompted-agent", ["ann"], **group) as stage:
        await ring(world, stage)
        await stage.wait_turns(2)
        await world.environment("/bell").set("round", 2)
        await stage.wait_turns(4)
    assert stage.statuses == {"ok": 4} and len(Script.asked) == 4

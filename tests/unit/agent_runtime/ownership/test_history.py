"""What earlier owners did, as the world's log tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ecumene.client import World

from agent_runtime.ownership.history import History
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld

AGENTS = "/runtime/runs/r/agents"


def write(world: FakeWorld, revision: int, path: str, key: str, value: object, seq: int, cause: str = "") -> None:
    world.revision = revision
    world.store(path, key, value, key if cause else "somebody", seq, cause)


async def read(world: FakeWorld, after: int, term: int, list_agents: Callable[[], list[str]] | None = None) -> History:
    history = History(cast(World, world), after=after, term=term, agents_path=AGENTS, list_agents=list_agents)
    await history.read()
    return history


async def test_turns_are_known_by_agent_and_event_and_nothing_else_is(seed: int) -> None:
    world = FakeWorld()
    write(world, 20, REPORTS, "ann", 1.0, 15, "fake/15.0")
    write(world, 21, REPORTS, "ann", 2.0, 16, "fake/16.0")
    write(world, 21, "/game", "ann", "hello", 16, "fake/16.0")
    write(world, 22, "/game", "x", "no turn", 9)
    write(world, 23, "/parts", "g.0", 1, 0)
    history = await read(world, 14, 23)
    done = history.find("ann", 16)
    assert done is not None
    assert {(effect.path, effect.value, effect.revision) for effect in done.effects} == {
        (REPORTS, 2.0, 21),
        ("/game", "hello", 21),
    }
    report = done.find_report(REPORTS, "ann")
    assert report is not None and report.value == 2.0
    assert history.find("ann", 17) is history.find("bob", 16) is history.find("somebody", 9) is None
    assert dict(history.find_all(["bob", "ann"], 15)).keys() == {1}
    history.forget(15)
    assert history.find("ann", 15) is None and history.find("ann", 16) is not None


async def test_of_a_log_of_everybody_only_the_parts_own_turns_are_kept(seed: int) -> None:
    world = FakeWorld()
    for number in range(100):
        write(world, 20 + number, REPORTS, f"agent-{number}", 1.0, 15, "fake/15.0")
        write(world, 20 + number, AGENTS, f"agent-{number}", {"turn": "no state"}, 15)
    write(world, 130, "/parts", "g.0", 1, 0)
    ours = ["agent-7", "agent-9"]
    history = await read(world, 14, 130, lambda: ours)
    assert history.find_all([f"agent-{number}" for number in range(100)], 15).keys() == {7, 9}
    assert history.find("agent-8", 15) is None
    history.forget(129)
    assert not history.is_over
    history.forget(130)
    assert history.is_over


async def test_whom_timers_woke_is_known_by_event_with_the_time_that_was_asked_for() -> None:
    world = FakeWorld()
    book = "/runtime/runs/r/wakes/g.0"
    write(world, 20, book, "ann", {"wakes": [[9]], "woke_ns": 5}, 0, "fake/15.0")
    write(world, 21, book, "bob", {"wakes": [[9]], "woke_ns": None}, 0, "fake/15.0")
    write(world, 22, book, "bob", {"wakes": [], "woke_ns": 9}, 0, "fake/16.0")
    write(world, 23, book, "cat", {"wakes": "none"}, 0, "fake/16.0")
    write(world, 24, book, "cat", {"wakes": [], "woke_ns": 9}, 0, "fake/no.0")
    write(world, 25, book, "dot", {"wakes": [], "woke_ns": 9}, 0, "fake/16.0")
    write(world, 30, "/parts", "g.0", 1, 0)
    ours = ["ann", "bob", "cat"]
    history = History(
        cast(World, world), after=14, term=30, agents_path=AGENTS, wakes_path=book, list_agents=lambda: ours
    )
    await history.read()
    assert (history.find_woken(15), history.find_woken(16), history.find_woken(17)) == ({"ann": 5}, {"bob": 9}, {})
    assert history.find("bob", 15) is not None, "what woke it was no timer, and it took its turn"
    history.forget(15)
    assert (history.find_woken(15), history.find_woken(16)) == ({}, {"bob": 9})


async def test_what_is_no_state_is_passed_over(seed: int) -> None:
    world = FakeWorld()
    write(world, 20, REPORTS, "ann", 1.0, 15, "fake/15.0")
    for number, value in enumerate((5, "x", {}, {"turn": 1}, {"turn": [], "revision": {}}, None)):
        write(world, 21 + number, AGENTS, "ann", value, 15)
    write(world, 30, "/parts", "g.0", 1, 0)
    done = (await read(world, 14, 30)).find("ann", 15)
    assert done is not None and done.state is None and len(done.effects) == 1


async def test_what_lies_before_the_cursor_is_not_asked_for(seed: int) -> None:
    world = FakeWorld()
    write(world, 20, REPORTS, "ann", 1.0, 15, "fake/15.0")
    write(world, 23, "/parts", "g.0", 1, 0)
    history = await read(world, 20, 23)
    assert history.find("ann", 15) is None


async def test_the_state_of_a_turn_is_known_with_it(seed: int) -> None:
    world = FakeWorld()
    state = {"turn": 3, "revision": 16, "status": "fallback", "reason": "x", "memory": ["m"], "actions": []}
    state |= {"costs": {"calls": 1}, "notes": {}}
    write(world, 21, REPORTS, "ann", 2.0, 16, "fake/16.0")
    write(world, 21, AGENTS, "ann", state, 16, "fake/16.0")
    write(world, 22, AGENTS, "bob", {**state, "turn": 1}, 0)
    write(world, 23, "/parts", "g.0", 1, 0)
    history = await read(world, 14, 23)
    ann, bob = history.find("ann", 16), history.find("bob", 16)
    assert ann is not None and bob is not None
    assert (ann.state and ann.state.turn, len(ann.effects)) == (3, 1)
    assert (bob.state and bob.state.turn, bob.effects) == (1, ())

"""A clock or timer that no server could take up again is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from env_server.model.changes import FactKind
from env_server.model.operations import ClockAction
from env_server.model.timelines import MissedTicks
from env_server.offline.contents import Problems, State
from env_server.offline.timelines import check_timelines
from env_server.testing.ops import control, set_timer
from tests.engine import Stand, new_environment
from tests.timelines import MANUAL, REALTIME, SECOND


def stored() -> State:
    """A world with clocks and timers of each kind, as the log tells it."""
    stand = Stand()
    stand.done(
        new_environment("/town", clock=MANUAL),
        new_environment("/town/inn", clock=replace(REALTIME, rate=0.5, lookahead_ns=SECOND)),
        new_environment("/village"),
        new_environment("/town/mill"),
        set_timer("/town", "bell", after_ns=5, every_ns=7, missed=MissedTicks.CATCH_UP),
        set_timer("/town/mill", "noon \u00e4", at_ns=50),
        set_timer("/town/inn", "dawn", at_ns=SECOND),
        control("/town", ClockAction.ADVANCE_BY, 17),
        control("/town", ClockAction.PAUSE),
    )
    state = State()
    for changes in stand.records():
        state.record(changes)
    state.finish()
    return state


def number(state: State, path: str) -> int:
    return state.tree.nodes.by_path[path].number


def problems_of(state: State) -> list[str]:
    problems = Problems()
    check_timelines(state, problems)
    return [problem.what for problem in problems.told]


def test_nothing_is_told_of_what_is_as_it_should_be() -> None:
    state = stored()
    assert (len(state.facts[FactKind.CLOCK]), len(state.facts[FactKind.TIMER])) == (2, 3)
    assert problems_of(state) == []


def test_a_clock_without_its_fact_and_a_fact_without_its_clock_are_told() -> None:
    state = stored()
    clocks = state.facts[FactKind.CLOCK]
    clocks[str(number(state, "/village"))] = clocks.pop(str(number(state, "/town/inn")))
    clocks["999"] = b'{"now":1}'
    assert problems_of(state) == ["declares a clock that is not kept", *["is kept, and nobody declares it"] * 2]


@pytest.mark.parametrize(
    "fact",
    [
        *(b"", b"{", b"[]", b"{}", b'{"now":"1"}', b'{"now":1.5}', b'{"now":true}', b'{"now":1,"else":2}'),
        *(b'{"now":1,"rate":0}', b'{"now":1,"rate":NaN}', b'{"now":1,"rate":"2"}', b'{"now":1,"target":"2"}'),
    ],
)
def test_a_clock_that_cannot_be_read_is_told(fact: bytes) -> None:
    state = stored()
    state.facts[FactKind.CLOCK][str(number(state, "/town"))] = fact
    assert len(problems_of(state)) == 1


@pytest.mark.parametrize("key", ["", "x", "1x", "01"])
def test_a_clock_of_no_environment_is_told(key: str) -> None:
    state = stored()
    state.facts[FactKind.CLOCK][key] = b'{"now":1}'
    assert len(problems_of(state)) == 1


@pytest.mark.parametrize(
    "rest",
    [
        *(b"", b',"due":1', b',"due":"1","order":1', b',"due":1,"order":1.5', b',"due":1,"order":1,"every":-1'),
        *(b',"due":1,"order":1,"missed":9', b',"due":1,"order":1,"payload":5', b',"due":1,"order":1,"fired":0'),
    ],
)
def test_a_timer_that_cannot_be_read_is_told(rest: bytes) -> None:
    state = stored()
    town = number(state, "/town")
    state.facts[FactKind.TIMER][f"{town}/bell"] = b'{"clock":%d%s}' % (town, rest)
    assert len(problems_of(state)) == 1


@pytest.mark.parametrize(
    ("path", "owner", "words"),
    [
        ("", "/town", "is not there"),
        ("/town", "/village", "none is declared there"),
        ("/village", "/town", "it is not above"),
        ("/town", "/town/inn", "it is not above"),
    ],
)
def test_a_timer_without_environment_or_clock_is_told(path: str, owner: str, words: str) -> None:
    state = stored()
    place = number(state, path) if path else 999
    state.facts[FactKind.TIMER][f"{place}/late"] = b'{"clock":%d,"due":1,"order":9}' % number(state, owner)
    (problem,) = problems_of(state)
    assert words in problem

"""Whom a timer wakes, and what turns change of it; where a part was taken over, too."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from ecumene.client import World

from agent_runtime.agents.cohort import Cohort
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.wakes import NEVER_NS, Wake, write_wakes
from agent_runtime.ownership.history import History
from agent_runtime.ownership.wake_book import WakeBook
from agent_runtime.turns.part_wakes import PartWakes
from tests.unit.agent_runtime.fake_world import FakeWorld

IDS = ["cat", "ann", "bob"]
CAT, ANN, BOB = range(3)
BOOK = "/runtime/runs/r/wakes/g.0"


class Known(History):
    """What a log would tell."""

    def __init__(self, woken: dict[int, dict[str, int]], term: int) -> None:
        self._known = woken
        self.term = term

    def find_woken(self, revision: int) -> dict[str, int]:
        return self._known.get(revision, {})


def make(history: History | None = None) -> PartWakes:
    world = cast(World, FakeWorld())
    book = WakeBook(world, world, "r", "g.0", "/game")
    return PartWakes(book, Cohort(pa.table({"agent_id": IDS})), history, Incidents())


def fire(wakes: PartWakes, revision: int, now_ns: int) -> list[tuple[int, tuple[str, ...], list[str]]]:
    return [
        (at_ns, tuple(wake.name for wake in why), [IDS[row] for row in rows])
        for at_ns, why, rows in (*wakes.fire_again(revision), *wakes.fire(revision, now_ns))
    ]


def test_those_of_one_time_wake_in_the_order_of_their_ids() -> None:
    wakes = make()
    wakes.begin(np.array([5, 5, 3], dtype=np.int64))
    assert wakes.next_ns == 3
    assert fire(wakes, 10, 4) == [(3, ("",), ["bob"])]
    assert fire(wakes, 11, 9) == [(5, ("",), ["ann", "cat"])]
    assert wakes.next_ns is None and wakes.times(np.array([CAT, BOB])).tolist() == [5, 3]


def test_an_agent_has_one_wake_outstanding_and_the_next_waits_for_its_end() -> None:
    wakes = make()
    wakes.end(ANN, {"": Wake(5), "tea": Wake(7, "tea")}, is_wake=False)
    assert fire(wakes, 10, 99) == [(5, ("",), ["ann"])]
    assert wakes.next_ns is None and wakes.pending(ANN) == (Wake(7, "tea"),)
    wakes.end(ANN, {"late": Wake(6, "late")}, is_wake=True)
    assert wakes.next_ns == 6
    assert fire(wakes, 11, 99) == [(6, ("late",), ["ann"])]
    wakes.end(ANN, {}, is_wake=True)
    assert fire(wakes, 12, 99) == [(7, ("tea",), ["ann"])]
    wakes.end(ANN, {}, is_wake=True)
    assert wakes.next_ns is None and wakes.pending(ANN) == ()


def test_what_is_kept_of_a_turn_beside_an_outstanding_wake_holds_that_one_too() -> None:
    wakes = make()
    wakes.end(ANN, {"tea": Wake(5, "tea", "milk")}, is_wake=False)
    fire(wakes, 10, 5)
    kept = wakes.note(ANN, "ann", {"tea": Wake(9, "tea")}, None)
    assert (kept.path, kept.key) == (BOOK, "ann")
    assert kept.value == kept.if_late == write_wakes((Wake(5, "tea", "milk"), Wake(9, "tea")), None)
    wakes.end(ANN, {"tea": Wake(9, "tea")}, is_wake=False)
    assert wakes.next_ns is None
    assert wakes.note(ANN, "ann", {}, 5).value == write_wakes((Wake(9, "tea"),), 5)
    wakes.end(ANN, {}, is_wake=True)
    assert wakes.next_ns == 9


def test_what_the_book_says_stands_in_place_of_first_wakes() -> None:
    wakes = make()
    wakes.begin(np.full(3, 100, dtype=np.int64))
    wakes.load("ann", write_wakes((Wake(50),), 40), 20)
    wakes.load("bob", write_wakes((), 40), 20)
    wakes.load("nobody", write_wakes((Wake(1),), None), 20)
    assert fire(wakes, 30, 200) == [(50, ("",), ["ann"]), (100, ("",), ["cat"])]


def test_what_no_runtime_has_written_is_an_incident_and_no_wake(caplog: pytest.LogCaptureFixture) -> None:
    wakes = make()
    wakes.begin(np.full(3, 100, dtype=np.int64))
    wakes.load("ann", {"wakes": "soon"}, 20)
    assert "wakes of ann" in caplog.text
    assert fire(wakes, 30, 200) == [(100, ("",), ["bob", "cat"])]


def test_whom_a_timer_woke_before_is_woken_by_it_again_and_by_no_other() -> None:
    """Of the log since the cursor: 30 woke ann, who then asked for 60; 40 and 45 fired when that was not known."""
    wakes = make(Known({30: {"ann": 50}}, term=48))
    wakes.begin(np.full(3, 70, dtype=np.int64))
    wakes.load("ann", write_wakes((Wake(60),), 50), 42)
    assert wakes.next_ns == 60
    assert fire(wakes, 30, 55) == [(50, ("",), ["ann"])]
    assert wakes.next_ns == 70, "her next wake waits"
    wakes.end_unchanged(np.array([ANN]))
    assert wakes.next_ns == 60
    assert fire(wakes, 40, 65) == [], "she asked for it later"
    assert fire(wakes, 45, 65) == [(60, ("",), ["ann"])]
    assert fire(wakes, 50, 80) == [(70, ("",), ["bob", "cat"])]


def test_two_wakes_that_were_before_end_one_by_one() -> None:
    wakes = make(Known({30: {"ann": 50}, 31: {"ann": 60}}, term=40))
    wakes.load("ann", write_wakes((Wake(70),), 60), 35)
    assert fire(wakes, 30, 50) + fire(wakes, 31, 60) == [(50, ("",), ["ann"]), (60, ("",), ["ann"])]
    wakes.end_many(np.array([ANN]), np.array([60]))
    assert wakes.next_ns is None
    wakes.end_many(np.array([ANN]), np.array([70]))
    assert wakes.next_ns == 70
    wakes.end_many(np.array([ANN, BOB]), np.array([NEVER_NS, 80]))
    assert wakes.next_ns == 80


def test_what_a_skip_has_passed_is_told_with_the_time_to_where_it_went() -> None:
    wakes = make()
    wakes.end(ANN, {"tea": Wake(5, "tea"), "bed": Wake(7, "bed")}, is_wake=False)
    wakes.end(BOB, {"": Wake(6)}, is_wake=False)
    woken = wakes.fire(10, 100, is_skipped=True)
    assert [(at_ns, why[0].name, rows.tolist()) for at_ns, why, rows in woken] == [
        (100, "tea", [ANN]),
        (100, "", [BOB]),
    ]
    wakes.end(ANN, {}, is_wake=True)
    assert fire(wakes, 11, 101) == [(100, ("bed",), ["ann"])], "her time does not go back"
    wakes.end(ANN, {"": Wake(101)}, is_wake=True)
    assert fire(wakes, 12, 200) == [(101, ("",), ["ann"])]


def test_a_new_owner_lets_no_agents_time_go_back_either() -> None:
    wakes = make()
    wakes.load("ann", write_wakes((Wake(7, "bed"), Wake(200)), 100), 20)
    assert fire(wakes, 30, 150) == [(100, ("bed",), ["ann"])]

"""A gate opens at the deadline that it has now, counted from the begin of its generation, over any restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from env_server.model.changes import EventType
from env_server.model.environments import Aggregate, Function, Gate, GateCause, GateState, Scope
from env_server.model.operations import BeginGeneration, Code, EnvironmentUpdate, OpenGate, Query, ReadAggregates
from tests.engine import Op, Stand, drop, new_environment, put

REPORTS = (
    Aggregate("n", Function.COUNT, in_generation=True),
    Aggregate("sum", Function.SUM, in_generation=True),
    Aggregate("spread", Function.HISTOGRAM, in_generation=True, bounds=(0.5,)),
    Aggregate("all", Function.COUNT),
)
ABOVE = (Aggregate("n", Function.COUNT, Scope.CHILDREN), Aggregate("sum", Function.SUM, Scope.CHILDREN))
DEADLINES_MS = st.sampled_from([0, 500, 1_000, 3_000, 10_000])
OUTAGES_S = st.sampled_from([None, 0.0, 0.4, 5.0])


def update(**parts: Any) -> Op:
    return Op("/w/r", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(**parts))


def begin(deadline_ms: int | None = None, count: int | None = None) -> Op:
    return update(begin=BeginGeneration("g", count, deadline_ms))


def change(deadline_ms: int) -> Op:
    return update(set_gates=(Gate("g", 0, deadline_ms),))


def make_stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/w", aggregates=ABOVE), new_environment("/w/r", aggregates=REPORTS, gates=(Gate("g"),)))
    return stand


def read(stand: Stand, path: str = "/w/r") -> Any:
    return stand.done(Op(path, "", Code.QUERY, Query(ReadAggregates())))[0]


def state(stand: Stand) -> GateState:
    return read(stand).gates[0]


class GateMachine(RuleBasedStateMachine):
    """One gate, and the seconds that it should open after."""

    def __init__(self) -> None:
        super().__init__()
        self.stand = make_stand()
        self.generation = 0
        self.begun_s = 0.0
        self.deadline_ms = 0
        self.cause: GateCause | None = GateCause.UNSPECIFIED
        """None: it collects."""
        self.reports: dict[str, int] = {}

    @property
    def now_s(self) -> float:
        return self.stand.clock.monotonic_ns() / 1e9

    def look(self) -> None:
        is_due = self.deadline_ms and self.now_s >= self.begun_s + self.deadline_ms / 1000
        if self.cause is None and is_due:
            self.cause = GateCause.DEADLINE

    def has_begun(self, deadline_ms: int | None, at_s: float) -> None:
        self.generation, self.begun_s, self.cause = self.generation + 1, at_s, None
        self.deadline_ms = self.deadline_ms if deadline_ms is None else deadline_ms
        self.reports.clear()

    def restarted(self, outage_s: float | None) -> None:
        if outage_s is None or not self.deadline_ms:
            self.begun_s = self.now_s
        self.stand.clock.settle()
        self.look()

    @rule(deadline_ms=DEADLINES_MS | st.none())
    def begin(self, deadline_ms: int | None) -> None:
        self.has_begun(deadline_ms, self.now_s)
        self.stand.done(begin(deadline_ms))

    @rule(deadline_ms=DEADLINES_MS)
    def change(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.stand.done(change(deadline_ms))
        self.look()

    @rule(key=st.sampled_from("abc"), value=st.integers(0, 1))
    def report(self, key: str, value: int) -> None:
        self.stand.done(put("/w/r", key, value))
        self.reports[key] = value

    @rule()
    def open(self) -> None:
        if self.cause is None:
            self.stand.done(update(open=OpenGate("g", self.generation)))
            self.cause = GateCause.OPERATION

    @rule(seconds=st.sampled_from([0.1, 0.4, 0.5, 2.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.stand.clock.advance(seconds)
        self.look()

    @rule(outage_s=OUTAGES_S, cleanly=st.booleans())
    def restart(self, outage_s: float | None, cleanly: bool) -> None:
        if cleanly:
            self.stand.stop(outage_s)
            self.stand.open()
        else:
            self.stand.reopen(outage_s)
        self.restarted(outage_s)

    @rule(deadline_ms=DEADLINES_MS, steps=st.integers(0, 4), outage_s=OUTAGES_S)
    def crash_while_it_begins(self, deadline_ms: int, steps: int, outage_s: float | None) -> None:
        self.stand.send(begin(deadline_ms))
        sent_s = self.now_s
        for _ in range(steps):
            self.stand.clock.step()
        self.stand.reopen(outage_s)
        gate = self.stand.world._tree.nodes.by_path["/w/r"].gate
        assert gate is not None
        if gate.generation > self.generation:
            self.has_begun(deadline_ms, sent_s)
        self.restarted(outage_s)

    @invariant()
    def the_gate_is_as_it_should_be(self) -> None:
        gate, reported = state(self.stand)
        assert (gate.generation, gate.deadline_ms) == (self.generation, self.deadline_ms)
        assert (gate.opened, gate.cause) == (bool(self.generation and self.cause), self.cause or 0)
        assert reported == len(self.reports)

    @invariant()
    def who_hears_the_events_knows_the_aggregates(self) -> None:
        told = {row[2:4]: row[4] for row in self.stand.rows() if row[1] == EventType.AGGREGATE_CHANGED}
        for path in ("/w", "/w/r"):
            for value in read(self.stand, path).values:
                found = told.get((path, value.name))
                if value.buckets:
                    assert (list(value.buckets) if found else [0, 0]) == (found.document if found else [0, 0])
                else:
                    assert (found or 0) == (value.value or 0), (path, value)

    def teardown(self) -> None:
        self.stand.clock.advance(100)
        opened = [row[4].document for row in self.stand.rows() if row[1] == EventType.GATE_OPENED]
        numbers = [told["generation"] for told in opened]
        assert numbers == sorted(set(numbers)), "a generation opens once"


def test_any_course_of_events_opens_the_gate_in_time() -> None:
    run_state_machine_as_test(GateMachine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


def test_a_server_that_keeps_crashing_opens_the_gate_in_time() -> None:
    stand = make_stand()
    stand.done(begin(deadline_ms=5_000))
    for _ in range(9):
        stand.clock.advance(0.25)
        stand.reopen(outage_s=0.25)
    assert not state(stand).gate.opened
    stand.clock.advance(0.5)
    assert state(stand).gate.cause is GateCause.DEADLINE
    stand.reopen(outage_s=100)
    stand.clock.advance(100)
    assert len([row for row in stand.rows() if row[1] == EventType.GATE_OPENED]) == 1


def test_a_deadline_that_passed_while_no_server_ran_opens_at_the_start() -> None:
    stand = make_stand()
    stand.done(begin(deadline_ms=5_000))
    stand.reopen(outage_s=5)
    stand.clock.settle()
    assert state(stand).gate.cause is GateCause.DEADLINE


@pytest.mark.parametrize("restart", ["another machine", "another history", "a clock that went back"])
def test_where_other_time_counts_the_full_time_is_given_again(restart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = make_stand()
    stand.clock.advance(1_000)
    stand.done(begin(deadline_ms=5_000))
    stand.kill(outage_s=None if restart == "another machine" else 4)
    if restart == "another history":
        log = type(stand.log)
        load = log.load
        monkeypatch.setattr(
            log, "load", lambda self: (it := load(self))._replace(head=it.head._replace(history="another"))
        )
    elif restart == "a clock that went back":
        stand.clock._now_ns = 0
    stand.open()
    stand.clock.advance(4.9)
    assert not state(stand).gate.opened
    stand.clock.advance(0.1)
    assert state(stand).gate.cause is GateCause.DEADLINE


def test_a_deadline_that_is_put_off_while_its_gate_waits_for_its_turn_is_obeyed() -> None:
    stand = make_stand()
    stand.done(begin(deadline_ms=1_000))
    timers = stand.world._gate_timers
    node = stand.world._tree.nodes.by_path["/w/r"]
    stand.clock.stall(1.0)  # it is due, and somebody else was first
    stand.send(change(9_000))
    timers._expire(node)
    stand.clock.settle()
    assert not state(stand).gate.opened
    stand.clock.advance(8.1)
    assert state(stand).gate.opened


def test_a_gate_of_another_name_in_the_same_place_has_its_own_time() -> None:
    stand = make_stand()
    stand.done(begin(deadline_ms=5_000))
    stand.clock.advance(4)
    stand.done(update(remove_gates=("g",), set_gates=(Gate("h"),)), update(begin=BeginGeneration("h", None, 5_000)))
    stand.clock.advance(4)
    assert not state(stand).gate.opened
    stand.clock.advance(1)
    assert state(stand).gate.opened


def test_what_was_kept_of_a_gate_goes_with_it() -> None:
    stand = make_stand()
    for ends in (update(open=OpenGate("g", 1)), change(0), update(remove_gates=("g",)), drop("/w/r", "")):
        stand.done(begin(deadline_ms=1_000))
        assert stand.world._gate_timers._facts, ends
        stand.done(ends)
        stand.clock.advance(2)
        assert not stand.world._gate_timers._facts, ends
        if ends == update(remove_gates=("g",)):
            stand.done(update(set_gates=(Gate("g"),)))
    stand.stop()
    stand.open()
    assert not stand.world._gate_timers._facts


def test_what_was_kept_of_a_gate_that_went_just_before_a_crash_goes_at_the_start() -> None:
    stand = make_stand()
    stand.done(begin(deadline_ms=1_000), drop("/w/r", ""))
    stand.reopen(outage_s=0)
    stand.clock.settle()
    stand.reopen(outage_s=0)
    assert not stand.world._gate_timers._facts

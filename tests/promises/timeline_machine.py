"""The machine that compares clocks and timers of a world in this process with their model, over crashes at any step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from env_server.model.changes import EventType, FactKind
from env_server.model.errors import WorldError
from env_server.model.frames import Transacted, Written
from env_server.model.limits import Limits
from env_server.model.operations import (
    ClockAction,
    Code,
    ControlClock,
    Delete,
    EnvironmentUpdate,
    Precondition,
    SetTimer,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.model.timelines import ClockDeclaration, ClockMode, MissedTicks
from env_server.model.values import Json
from env_server.storage import layout
from tests.engine import Op, Sent, Stand, new_environment
from tests.promises.timeline_model import TimelineModel

LIMITS = Limits(replay_ops_max=24, timer_slice_max=3, timer_late_ms_max=0)
PATHS = ("/", "/a", "/a/b", "/a/b/c", "/d")
NAMES = st.sampled_from(["t", "u", "v"])
SHORT = st.integers(0, 12)
SETTINGS = st.builds(
    lambda is_at, ns, every, missed, payload, if_absent: SetTimer(
        *((ns, None) if is_at else (None, ns)), every, missed, payload, if_absent
    ),
    st.booleans(),
    SHORT,
    st.sampled_from([0, 0, 1, 3, 5]),
    st.sampled_from(MissedTicks),
    st.sampled_from([None, Json(b'{"x": [1, 2]}')]),
    st.booleans(),
)
ACTIONS = st.tuples(
    st.sampled_from([action for action in ClockAction if action is not ClockAction.SET_RATE]), st.integers(0, 40)
)
CRASHES = st.sampled_from([None, None, 0, 1, 2, 3, 4, 5, 6, 8, 11])


class TimelineMachine(RuleBasedStateMachine):
    """One world and its model. Each op is sent once more after a crash, so that it has happened once in any case."""

    def __init__(self) -> None:
        super().__init__()
        self.stand = Stand(limits=LIMITS)
        self.model = TimelineModel()
        self.seq = 0
        self.stand.done(*(new_environment(path) for path in PATHS[1:]))

    @rule(
        path=st.sampled_from(PATHS),
        start=SHORT,
        lookahead=st.sampled_from([None, 0, 4]),
        paused=st.booleans(),
        crash=CRASHES,
    )
    def declare(self, path: str, start: int, lookahead: int | None, paused: bool, crash: int | None) -> None:
        declaration = ClockDeclaration(ClockMode.MANUAL, start, paused=paused, lookahead_ns=lookahead)
        op = Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=declaration))
        self.check(op, lambda: self.model.declare(path, start, lookahead, paused), crash)

    @rule(path=st.sampled_from(PATHS), name=NAMES, asked=SETTINGS, crash=CRASHES)
    def set_a_timer(self, path: str, name: str, asked: SetTimer, crash: int | None) -> None:
        self.check(Op(path, name, Code.SET_TIMER, asked), lambda: self.model.set(path, name, asked), crash)

    @rule(path=st.sampled_from(PATHS), name=NAMES, crash=CRASHES)
    def cancel_a_timer(self, path: str, name: str, crash: int | None) -> None:
        self.check(Op(path, name, Code.CANCEL_TIMER, Delete()), lambda: self.model.cancel(path, name), crash)

    @rule(path=st.sampled_from(PATHS), asked=ACTIONS, crash=CRASHES)
    def control(self, path: str, asked: tuple[ClockAction, int], crash: int | None) -> None:
        op = Op(path, "", Code.CONTROL_CLOCK, ControlClock(*asked))
        self.check(op, lambda: self.model.control(path, *asked), crash)

    @rule(path=st.sampled_from(PATHS[1:]), crash=CRASHES)
    def replace(self, path: str, crash: int | None) -> None:
        """Deletes an environment with all below it, and makes them anew, without clocks and timers."""

        def apply() -> str:
            self.model.delete(path)
            return ""

        again = [below for below in PATHS if below == path or below.startswith(path + "/")]
        writes = (
            Write(path, "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)),
            *(Write(below, "", Code.REGISTER_ENVIRONMENT, new_environment(below).argument) for below in again),
        )
        self.check(Op("/", "", Code.TRANSACT, Transact(writes=writes)), apply, crash)

    @rule(
        path=st.sampled_from(PATHS[1:]),
        name=NAMES,
        asked=SETTINGS,
        acted=ACTIONS,
        declares=st.booleans(),
        deletes=st.booleans(),
        crash=CRASHES,
    )
    def fail_in_a_transaction(
        self,
        path: str,
        name: str,
        asked: SetTimer,
        acted: tuple[ClockAction, int],
        declares: bool,
        deletes: bool,
        crash: int | None,
    ) -> None:
        """Whatever a transaction has done that fails at its end has never been."""
        never = Precondition(Condition.EXISTS, path="/", key="nothing")
        declaration = EnvironmentUpdate(clock=ClockDeclaration(ClockMode.MANUAL, 3))
        writes = [Write("/d", "w", Code.SET_TIMER, asked)] if self.model.nearest("/d") else []
        if declares and path not in self.model.clocks:
            writes.append(Write(path, "", Code.UPDATE_ENVIRONMENT, declaration))
        if declares or self.model.nearest(path):
            writes.append(Write(path, name, Code.SET_TIMER, asked))
        if path in self.model.clocks and not self.model.clocks[path].paused:
            writes.append(Write(path, "", Code.CONTROL_CLOCK, ControlClock(ClockAction.PAUSE)))
            writes.append(Write(path, "", Code.CONTROL_CLOCK, ControlClock(ClockAction.RESUME)))
            writes.append(Write(path, "", Code.CONTROL_CLOCK, ControlClock(ClockAction.ADVANCE_BY, acted[1])))
        if deletes:
            writes.append(Write(path, "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
        writes.append(Write("/", "x", Code.SET, 1, (never,)))
        self.check(Op("/", "", Code.TRANSACT, Transact(writes=tuple(writes))), lambda: "PRECONDITION_FAILED", crash)

    @rule()
    def restart(self) -> None:
        self.stand.stop()
        kept = map(layout.split_fact_key, self.stand.disk.tables[layout.FACTS])
        assert sum(kind == FactKind.TIMER for kind, _ in kept) == len(self.model.timers), "nothing else is kept"
        self.stand.open()
        self.stand.clock.settle()

    def check(self, op: Op, apply: Callable[[], str], crash: int | None) -> None:
        """The op does, or is refused, as the model says; with a crash so many loop steps after it was sent."""
        self.seq += 1
        sent = self.stand.send(op, client_id="c", seq=self.seq)
        if crash is not None:
            for _ in range(crash):
                self.stand.clock.step()
            self.stand.reopen()
            sent = self.stand.resend(sent)
        self.stand.clock.settle()
        said = apply()
        assert told(sent) == said, (told(sent), said)
        self.model.run()

    @invariant()
    def both_stand_at_the_same(self) -> None:
        timekeeping = self.stand.world.timekeeping
        for path, clock in self.model.clocks.items():
            seen = timekeeping.see(path)
            state = seen.state
            assert (seen.path, state.now_ns, state.paused) == (path, clock.now, clock.paused)
            assert (state.target_ns, state.skipping) == (clock.target, clock.skipping)
            assert bool(seen.held_by) == (clock.paused or clock.target is not None)
        for path in PATHS:
            expected = sorted((timer for timer in self.model.timers if timer.path == path), key=lambda one: one.name)
            assert [
                (one.name, one.due_ns, one.every_ns, one.missed, one.fired, one.left_out)
                for one in timekeeping.list_timers(path)
            ] == [(one.name, one.due, one.every, one.missed, one.fired, one.left_out) for one in expected]
        fired, expected_by_timer = by_timer(self.fired()), by_timer(self.model.told)
        assert fired.keys() == expected_by_timer.keys()
        for timer, told_of_it in fired.items():
            assert [document for _, document in told_of_it] == [document for _, document in expected_by_timer[timer]]
            for (at, _), ((low, high), _) in zip(told_of_it, expected_by_timer[timer], strict=True):
                assert low <= at <= high, (timer, at, low, high)

    def fired(self) -> list[Any]:
        """All firings that the log tells."""
        return [
            (place.path, changes.keys[row], place.sim_time_ns, changes.told_value(row).document)  # type: ignore[union-attr]
            for changes in self.stand.records()
            for row, type_ in enumerate(changes.types)
            if type_ == EventType.TIMER_FIRED
            for place in [changes.places[changes.path[row]]]
        ]


def told(sent: Sent) -> str:
    """What came of the only op: a reason, "unchanged" or ""."""
    outcome: Any = sent.outcome() if sent.parts[0].outcomes or not sent.parts[0].without_revision else None
    if isinstance(outcome, WorldError):
        return outcome.reason.name
    if isinstance(outcome, Written):
        return "" if outcome.changed else "unchanged"
    assert isinstance(outcome, Transacted)
    return ""


def by_timer(fired: list[Any]) -> dict[tuple[str, str], list[Any]]:
    """Firings in order, of each timer by itself: the clocks of different environments go side by side."""
    found: dict[tuple[str, str], list[Any]] = {}
    for path, name, *rest in fired:
        found.setdefault((path, name), []).append(rest)
    return found

"""Gates over live members: opened in the revision that completes them, whatever happens to members and reports."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from env_server.model.changes import EventType
from env_server.model.environments import Gate, GateCause, GateState
from env_server.model.errors import InvalidRequest, WorldError
from env_server.model.operations import (
    Code,
    Delete,
    EnvironmentUpdate,
    OpenGate,
    Query,
    ReadAggregates,
    Transact,
    Write,
)
from tests.engine import Op, Stand, drop, new_environment, put
from tests.leased import begin, events, granted, join, revoke, set_gate


def gate_of(stand: Stand, path: str) -> GateState:
    seen: Any = stand.done(Op(path, "", Code.QUERY, Query(ReadAggregates())))[0]
    return seen.gates[0]


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/m"), new_environment("/g", gates=(Gate("g", members_path="/m"),)))
    return stand


def state(stand: Stand) -> tuple[bool, str, int]:
    gate = gate_of(stand, "/g").gate
    return gate.opened, gate.cause.name, gate.open_revision


def test_it_opens_with_the_last_report_and_in_its_revision(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(*[join("/m", f"a{n}", lease) for n in range(3)], begin("/g"))
    stand.done(put("/g", "a0", 1), put("/g", "stranger", 1), put("/g", "a1", 1), put("/g", "a0", 2))
    assert state(stand) == (False, "UNSPECIFIED", 0)
    revision = stand.do(put("/g", "a2", 1)).written.revision
    assert state(stand) == (True, "MEMBERS", revision)
    assert events(stand, EventType.GATE_OPENED) == [(revision, "/g", "g")]
    stand.done(begin("/g"))
    assert state(stand) == (False, "UNSPECIFIED", 0)


def test_who_leaves_or_expires_is_no_longer_waited_for(stand: Stand) -> None:
    lease, short = granted(stand, 60_000), granted(stand, 2000)
    stand.done(join("/m", "a", lease), join("/m", "b", lease), join("/m", "c", short), begin("/g"), put("/g", "a", 1))
    stand.done(drop("/m", "b"))
    assert not state(stand)[0]
    stand.clock.advance(3)
    expired = events(stand, EventType.MEMBER_EXPIRED)
    assert state(stand) == (True, "MEMBERS", expired[0][0])
    stand.done(join("/m", "b", lease), begin("/g"), put("/g", "a", 1))
    revision = stand.do(drop("/m", "b")).written.revision
    assert state(stand) == (True, "MEMBERS", revision)


def test_who_joins_while_it_collects_is_waited_for(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(join("/m", "a", lease), begin("/g"), join("/m", "b", lease), put("/g", "a", 1))
    assert not state(stand)[0]
    stand.reopen()
    stand.done(put("/g", "b", 1))
    assert state(stand)[:2] == (True, "MEMBERS")


def test_it_does_not_open_without_any_member(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(begin("/g"), put("/g", "x", 1), join("/m", "a", lease), drop("/m", "a"))
    assert not state(stand)[0]
    stand.done(join("/m", "a", lease), drop("/m", ""), new_environment("/m"))
    assert not state(stand)[0]
    stand.done(put("/g", "b", 1))
    assert not state(stand)[0]
    revision = stand.do(join("/m", "b", lease)).written.revision
    assert state(stand) == (True, "MEMBERS", revision), "everybody who is there has reported"


def test_count_or_members_whichever_comes_first(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(*[join("/m", f"a{n}", lease) for n in range(3)], begin("/g", count=2))
    stand.done(put("/g", "x", 1), put("/g", "y", 1))
    assert state(stand)[:2] == (True, "COUNT")
    stand.done(begin("/g", count=10), *[put("/g", f"a{n}", 1) for n in range(3)])
    assert state(stand)[:2] == (True, "MEMBERS")


def test_a_failed_transaction_opens_nothing_and_waits_on(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(join("/m", "a", lease), join("/m", "b", lease), begin("/g"), put("/g", "a", 1))
    leave = Write("/m", "b", Code.DELETE_ENTRY, Delete())
    failing = Write("/m", "nobody", Code.DELETE_ENTRY, Delete())
    assert isinstance(stand.do(Op("/", "", Code.TRANSACT, Transact(writes=(leave, failing)))).error, WorldError)
    assert not state(stand)[0]
    both = Transact(writes=(leave, Write("/m", "c", Code.REGISTER_ENTRY, join("/m", "c", lease).argument)))
    stand.done(Op("/", "", Code.TRANSACT, both))
    assert not state(stand)[0]
    stand.done(put("/g", "c", 1))
    assert state(stand)[0]


@pytest.mark.parametrize(
    "op",
    [
        drop("/m", ""),
        drop("/g", ""),
        begin("/g"),
        set_gate("/g", members_path="/n"),
        Op("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_gates=("g",))),
        Op("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(open=OpenGate("g", 1))),
        drop("/m", "a"),
        put("/g", "b", 1),
    ],
    ids=["members' environment", "gate's environment", "begin", "other path", "no gate", "open", "leave", "report"],
)
def test_what_is_taken_back_leaves_who_is_waited_for(stand: Stand, op: Op) -> None:
    lease = granted(stand)
    stand.done(new_environment("/n"), join("/m", "a", lease), join("/m", "b", lease), begin("/g"), put("/g", "a", 1))
    before = gate_of(stand, "/g")
    writes = (Write(op.path, op.key, Code(op.code), op.argument), Write("/x", "k", Code.SET, 1))
    assert isinstance(stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).error, WorldError)
    assert gate_of(stand, "/g") == before
    stand.done(join("/m", "c", lease), put("/g", "b", 1), drop("/g", "b"), put("/g", "c", 1), put("/n", "b", 1))
    assert gate_of(stand, "/g").gate == before.gate
    stand.done(put("/g", "b", 1))
    assert state(stand)[:2] == (True, "MEMBERS")


def test_a_gate_names_another_environment_that_is_there(stand: Stand) -> None:
    for op in (
        set_gate("/g", members_path="/g"),
        set_gate("/g", members_path="/absent"),
        new_environment("/h", gates=(Gate("h", members_path="/h"),)),
        new_environment("/h", gates=(Gate("h", members_path="/absent"),)),
    ):
        error = stand.do(op).error
        assert isinstance(error, InvalidRequest)
        assert error.violations[0][0] == "gates.members_path"
    stand.done(drop("/m", ""))
    assert stand.done(set_gate("/g", count_target=3)), "what has gone since hinders no other change"


def test_it_opens_with_the_last_of_twenty_thousand(stand: Stand) -> None:
    lease = granted(stand, 3_600_000)
    for first in range(0, 20_000, 4000):
        stand.done(*[join("/m", f"a{n}", lease) for n in range(first, first + 4000)])
    stand.done(begin("/g"))
    for first in range(0, 20_000, 4000):
        assert not state(stand)[0]
        stand.done(*[put("/g", f"a{n}", 1.5) for n in range(first, first + 4000)])
    assert state(stand)[:2] == (True, "MEMBERS")


# ---- against a model that looks at everybody after each revision ----

KEYS = ("a", "b")
HALLS = ("/m", "/n")
GATES = ("/g", "/h")
LEASES = (0, 1)


@dataclass
class Model:
    """Who is where, who has reported when, and each gate."""

    members: dict[str, dict[str, int] | None] = field(default_factory=lambda: {hall: {} for hall in HALLS})
    reports: dict[str, dict[str, int]] = field(default_factory=lambda: {path: {} for path in GATES})
    gates: dict[str, Gate] = field(default_factory=lambda: {path: Gate("g", members_path="/m") for path in GATES})

    def apply(self, action: tuple[Any, ...], revision: int) -> bool:
        """One action as part of `revision`; False = it must fail, and nothing is changed."""
        match action:
            case "join", hall, key, lease:
                here = self.members[hall]
                if here is None or key in here:
                    return False
                here[key] = lease
            case "leave", hall, key:
                here = self.members[hall]
                if here is None or key not in here:
                    return False
                del here[key]
            case "report", path, key:
                self.reports[path][key] = revision
            case "forget", path, key:
                if key not in self.reports[path]:
                    return False
                del self.reports[path][key]
            case "begin", path:
                self.gates[path] = self.gates[path].begin(revision, None, None)
            case "gate", path, hall, count:
                if self.members[hall] is None:
                    return False
                self.gates[path] = replace(self.gates[path], members_path=hall, count_target=count)
            case "drop", hall:
                if self.members[hall] is None:
                    return False
                self.members[hall] = None
            case "make", hall:
                if self.members[hall] is not None:
                    return False
                self.members[hall] = {}
        return True

    def end(self, revision: int) -> None:
        """Opens what is complete at the end of a revision."""
        for path, gate in self.gates.items():
            if not gate.collecting:
                continue
            reported = self.reported(path)
            members = self.members[gate.members_path] or {}
            if gate.count_target and len(reported) >= gate.count_target:
                self.gates[path] = gate.open(revision, GateCause.COUNT)
            elif members and reported.issuperset(members):
                self.gates[path] = gate.open(revision, GateCause.MEMBERS)

    def reported(self, path: str) -> set[str]:
        begun = self.gates[path].begin_revision
        return {key for key, revision in self.reports[path].items() if revision > begun}


def op_of(action: tuple[Any, ...], leases: list[int]) -> Op:
    match action:
        case "join", hall, key, lease:
            return join(hall, key, leases[lease])
        case "leave", hall, key:
            return drop(hall, key)
        case "report", path, key:
            return put(path, key, 1)
        case "forget", path, key:
            return drop(path, key)
        case "begin", path:
            return begin(path)
        case "gate", path, hall, count:
            return set_gate(path, members_path=hall, count_target=count)
        case "drop", hall:
            return drop(hall, "")
        case "make", hall:
            return new_environment(hall)
    raise AssertionError(action)


keys, halls, gates = st.sampled_from(KEYS), st.sampled_from(HALLS), st.sampled_from(GATES)
single = st.one_of(
    st.tuples(st.just("join"), halls, keys, st.sampled_from(LEASES)),
    st.tuples(st.just("leave"), halls, keys),
    st.tuples(st.just("join"), halls, keys, st.sampled_from(LEASES)),
    *[st.tuples(st.just("report"), gates, keys)] * 4,
    st.tuples(st.just("forget"), gates, keys),
    st.tuples(st.just("begin"), gates),
    st.tuples(st.just("gate"), gates, halls, st.sampled_from((0, 0, 2))),
    st.tuples(st.just("drop"), halls),
    st.tuples(st.just("make"), halls),
)
anything = st.one_of(
    *[single] * 4,
    st.tuples(st.just("transact"), st.lists(single, min_size=1, max_size=5), st.booleans()),
    st.tuples(st.just("end"), st.sampled_from(LEASES)),
    st.tuples(st.just("restart"), st.booleans()),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(anything, min_size=30, max_size=60))
def test_gates_do_what_a_look_at_everybody_says(actions: list[tuple[Any, ...]]) -> None:
    stand, model = Stand(), Model()
    stand.done(*map(new_environment, HALLS))
    stand.done(*[new_environment(path, gates=(Gate("g", members_path="/m"),)) for path in GATES])
    leases = [granted(stand, 86_400_000) for _ in LEASES]
    for action in (("join", "/m", "a", 0), ("join", "/m", "b", 1), ("begin", "/g"), ("begin", "/h"), *actions):
        if action[0] == "restart":
            stand.stop() if action[1] else stand.kill()
            stand.open()
        elif action[0] == "end":
            end_lease(stand, model, leases, action[1])
        elif action[0] == "transact":
            transact(stand, model, leases, action[1], action[2])
        else:
            revision = stand.world.revision + 1
            tried = copy.deepcopy(model)
            done = tried.apply(action, revision)
            outcome = stand.do(op_of(action, leases)).outcome()
            assert isinstance(outcome, WorldError) is not done, (action, outcome)
            if done:
                model.__dict__.update(tried.__dict__)
                model.end(revision)
        compare(stand, model)


def transact(stand: Stand, model: Model, leases: list[int], actions: list[tuple[Any, ...]], fails: bool) -> None:
    revision = stand.world.revision + 1
    tried = copy.deepcopy(model)
    done = all([tried.apply(action, revision) for action in actions]) and not fails  # noqa: C419 - all are applied
    ops = [op_of(action, leases) for action in actions] + ([put("/nowhere", "k", 1)] if fails else [])
    writes = tuple(Write(op.path, op.key, Code(op.code), op.argument) for op in ops)
    outcome = stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).outcome()
    assert isinstance(outcome, WorldError) is not done, (actions, outcome)
    if done:
        model.__dict__.update(tried.__dict__)
        model.end(revision)


def end_lease(stand: Stand, model: Model, leases: list[int], lease: int) -> None:
    stand.done(revoke(leases[lease]))
    stand.clock.advance(0.1)
    revision = stand.world.revision
    for here in model.members.values():
        for key in [key for key, under in (here or {}).items() if under == lease]:
            del here[key]  # type: ignore[union-attr]
    model.end(revision)
    leases[lease] = granted(stand, 86_400_000)


def compare(stand: Stand, model: Model) -> None:
    for path in GATES:
        told = gate_of(stand, path)
        assert told.gate == model.gates[path], path
        assert told.reported == len(model.reported(path)), path

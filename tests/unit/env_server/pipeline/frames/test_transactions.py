"""Transactions: one revision or nothing, and after nothing the world is exactly as before."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from env_server.model.entries import COUNTER, STREAM
from env_server.model.environments import Aggregate, Declaration, Function, Gate
from env_server.model.errors import PreconditionFailed, Reason, WorldError
from env_server.model.frames import Transacted
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    OpenGate,
    Precondition,
    RegisterEntry,
    RegisterEnvironment,
    Transact,
    Write,
)
from env_server.model.operations import Test as ConditionTest
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Stand, add, new_environment, put

AGGREGATES = tuple(Aggregate(function.name.lower(), function) for function in Function if function.name != "HISTOGRAM")
IN_GENERATION = tuple(Aggregate(f"g-{one.name}", one.function, in_generation=True) for one in AGGREGATES)


def transact(*writes: Write, preconditions: tuple[Precondition, ...] = ()) -> Op:
    return Op("/", "", Code.TRANSACT, Transact(preconditions, writes))


def update(path: str, **parts: Any) -> Write:
    return Write(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(**parts))


FAILS = Write("/w", "absent", Code.DELETE_ENTRY, Delete())


@pytest.fixture
def stand() -> Stand:
    """A world with something of everything; its gate collects generation 2 of three reports, two of them there."""
    stand = Stand()
    gate = Gate("g", count_target=3, deadline_ms=60_000)
    stand.done(
        new_environment("/w", aggregates=AGGREGATES + IN_GENERATION, gates=(gate,), labels={"a": "b"}),
        new_environment("/w/child"),
        new_environment("/w/child/deep"),
        put("/w", "value", 1.5),
        put("/w", "text", "x"),
        add("/w", "counter", 5),
        Op("/w", "stream", Code.REGISTER_ENTRY, RegisterEntry(STREAM, stream_items_max=2)),
        *[Op("/w", "stream", Code.APPEND, number) for number in range(4)],
        Op("/w/child", "inner", Code.APPEND, "item"),
    )
    for _ in range(2):
        stand.done(Op("/w", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("g"))))
    stand.done(put("/w", "r1", 1, generation=2), put("/w", "r2", 2.25, generation=2))
    return stand


def test_a_transaction_is_one_revision_and_its_own_writes_are_seen_by_the_next(stand: Stand) -> None:
    before = stand.world.revision
    outcome = stand.done(
        transact(
            Write("/w", "counter", Code.ADD, 1),
            Write("/w", "counter", Code.ADD, 1),
            Write("/n", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration())),
            Write("/n", "x", Code.SET, 1),
            Write("/n", "x", Code.SET, 2, (Precondition(ConditionTest.VERSION, 1),)),
        )
    )[0]
    assert isinstance(outcome, Transacted)
    assert stand.world.revision == before + 1 == outcome.revision
    assert [one.version for one in outcome.written] == [2, 3, 1, 1, 2]
    assert [one.value for one in outcome.written[:2]] == [6, 7]
    assert {row[0] for row in stand.rows() if row[0] > before} == {before + 1}
    stand.reopen()
    assert stand.value("/n", "x") == 2


WRITES = {
    "set": [Write("/w", "value", Code.SET, 9), Write("/w", "new", Code.SET, 1e300)],
    "add": [Write("/w", "counter", Code.ADD, 3), Write("/w", "c2", Code.ADD, 0.5)],
    "merge": [Write("/w", "doc", Code.MERGE, Json(b'{"a":1}')), Write("/w", "doc", Code.MERGE, Json(b'{"b":2}'))],
    "append": [Write("/w", "stream", Code.APPEND, 7), Write("/w", "s2", Code.APPEND, 8)] * 2,
    "delete": [Write("/w", key, Code.DELETE_ENTRY, Delete()) for key in ("value", "stream", "counter", "r1")],
    "delete and write": [
        Write("/w", "stream", Code.DELETE_ENTRY, Delete()),
        Write("/w", "stream", Code.APPEND, 1),
        Write("/w", "value", Code.DELETE_ENTRY, Delete()),
        Write("/w", "value", Code.ADD, 1),
    ],
    "register": [
        Write("/w", "e", Code.REGISTER_ENTRY, RegisterEntry(COUNTER, 4)),
        Write("/w", "s", Code.REGISTER_ENTRY, RegisterEntry(STREAM)),
    ],
    "report that fills the gate": [Write("/w", "r3", Code.SET, 3), Write("/w", "r4", Code.SET, 4)],
    "begin a generation": [update("/w", begin=BeginGeneration("g", 1, 1000)), Write("/w", "r1", Code.SET, 3)],
    "open the gate": [update("/w", open=OpenGate("g", 2)), Write("/w", "late", Code.SET, 1)],
    "declarations": [
        update("/w", set_labels=(("c", "d"),), set_aggregates=(Aggregate("x", Function.SUM),)),
        Write("/w", "value", Code.SET, 4),
        update("/w", remove_aggregates=("sum", "min"), merge_config=Json(b'{"x":1}')),
        update("/w", remove_gates=("g",)),
        Write("/w", "r3", Code.SET, 4),
    ],
    "environments": [
        Write("/w/second", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(labels={"x": "y"}))),
        Write("/w/second", "k", Code.APPEND, 1),
        Write("/w/child", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)),
    ],
    "replace an environment": [
        Write("/w/child", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)),
        Write("/w/child", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration())),
        Write("/w/child", "inner", Code.SET, 1),
    ],
}


@pytest.mark.parametrize("name", WRITES)
def test_a_failed_transaction_leaves_everything_as_it_was(stand: Stand, name: str) -> None:
    other = put("/w/child", "bystander", 1)
    stand.send(other)  # something stands in the open group already
    before = picture(stand)
    revision, group = stand.world.revision, list(stand.world._tree.changes.keys)
    failing = stand.send(transact(*WRITES[name], FAILS))
    assert picture(stand) == before
    assert stand.world.revision == revision
    assert stand.world._tree.changes.keys == group
    assert stand.world._tree.due == []
    stand.clock.settle()
    error = failing.error
    assert error.reason is Reason.ENTRY_NOT_FOUND
    assert error.metadata["write"] == str(len(WRITES[name]))
    stand.reopen()
    assert picture(stand) == before
    stand.done(transact(*WRITES[name]))
    after = picture(stand)
    assert after != before
    stand.stop()
    stand.open()
    assert picture(stand) == after


@pytest.mark.parametrize("name", WRITES)
def test_a_committed_transaction_is_the_same_after_a_restart(stand: Stand, name: str) -> None:
    stand.done(transact(*WRITES[name]))
    after = picture(stand)
    stand.reopen()
    assert picture(stand) == after
    assert_tallies_are_right(stand)


def test_a_failed_transaction_says_nothing_to_watchers(stand: Stand) -> None:
    rows = stand.rows()
    for number in range(3):
        writes = [Write("/w", "value", Code.SET, 9), FAILS]
        stand.do(transact(*writes), client_id="c", seq=number + 1)
        stand.do(transact(*writes)._replace(producer="p", seq=number + 1))
    assert stand.rows() == rows
    assert [changes.number for changes in stand.records()] == sorted({c.number for c in stand.records()})


def test_a_failed_transaction_does_not_delay_the_gates_deadline(stand: Stand) -> None:
    stand.clock.advance(59)
    stand.do(transact(update("/w", begin=BeginGeneration("g", 1, 60_000)), FAILS))
    stand.clock.advance(2)
    state = stand.do(Op("/w", "", Code.QUERY, ask_gates())).outcome()
    assert state.gates[0].gate.opened  # type: ignore[union-attr]


def test_preconditions_of_a_transaction_tell_what_they_met(stand: Stand) -> None:
    failed = stand.do(
        transact(
            Write("/w", "value", Code.SET, 1),
            preconditions=(Precondition(ConditionTest.VERSION, 7, "/w", "counter"),),
        )
    ).error
    assert isinstance(failed, PreconditionFailed)
    assert failed.metadata["version"] == "1"
    assert stand.value("/w", "value") == 1.5
    absent = (Precondition(ConditionTest.ABSENT, NOTHING, "/w", "z"), Precondition(ConditionTest.EXISTS, NOTHING, "/w"))
    assert stand.done(transact(Write("/w", "z", Code.SET, 1), preconditions=absent))


def test_limits_of_a_transaction_are_exact(stand: Stand) -> None:
    writes = [Write("/w", "counter", Code.ADD, 1)] * 128
    assert stand.done(transact(*writes))
    error = stand.do(transact(*writes, writes[0])).error
    assert error.reason is Reason.LIMIT_EXCEEDED
    assert error.metadata == {"limit": "transaction_ops_max", "max": "128", "actual": "129"}
    assert stand.value("/w", "counter") == 133
    otherwise = Transact((Precondition(ConditionTest.EXISTS, path="/w"),), (writes[0],), (*writes, writes[0]))
    assert stand.do(Op("/", "", Code.TRANSACT, otherwise)).error.reason is Reason.LIMIT_EXCEEDED


def test_the_else_branch_is_taken_when_a_precondition_of_the_transaction_fails(stand: Stand) -> None:
    absent = (Precondition(ConditionTest.ABSENT, path="/w", key="lock"),)
    asked = Transact(absent, (Write("/w", "lock", Code.SET, "mine"),), (Write("/w", "refused", Code.ADD, 1),))
    first = stand.done(Op("/", "", Code.TRANSACT, asked))[0]
    second = stand.done(Op("/", "", Code.TRANSACT, asked))[0]
    assert isinstance(first, Transacted) and isinstance(second, Transacted)
    assert (first.otherwise, second.otherwise) == (False, True)
    assert second.revision == first.revision + 1
    assert stand.value("/w", "refused") == 1


def test_a_failing_else_branch_rolls_back_like_any(stand: Stand) -> None:
    failing = (Precondition(ConditionTest.EXISTS, path="/w", key="nothing"),)
    otherwise = (Write("/w", "a", Code.SET, 1), Write("/w", "nothing", Code.DELETE_ENTRY, Delete()))
    before = stand.world.revision
    error = stand.do(Op("/", "", Code.TRANSACT, Transact(failing, (Write("/w", "b", Code.SET, 1),), otherwise))).error
    assert (error.reason, error.metadata["write"]) == (Reason.ENTRY_NOT_FOUND, "1")
    assert stand.world.revision == before
    assert stand.value("/w", "a") is NOTHING


def test_a_write_whose_own_precondition_fails_takes_no_else_branch(stand: Stand) -> None:
    guarded = Write("/w", "a", Code.SET, 1, (Precondition(ConditionTest.VERSION, 9),))
    holds = (Precondition(ConditionTest.EXISTS, path="/w"),)
    asked = Transact(holds, (guarded,), (Write("/w", "b", Code.SET, 1),))
    assert stand.do(Op("/", "", Code.TRANSACT, asked)).error.reason is Reason.PRECONDITION_FAILED
    assert stand.value("/w", "b") is NOTHING


def test_a_gate_filled_by_an_environment_that_the_same_transaction_deletes_does_not_open(stand: Stand) -> None:
    stand.done(
        transact(
            Write("/w", "r3", Code.SET, 3),
            Write("/w", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)),
        )
    )
    assert stand.rows()[-1][1] == 3
    stand.reopen()
    assert stand.value("/w", "r3") is NOTHING


@pytest.mark.parametrize(
    "asked",
    [
        EnvironmentUpdate(set_labels=(("x", "y"),), begin=BeginGeneration("unknown")),
        EnvironmentUpdate(set_labels=(("x", "y"),), open=OpenGate("g", 1)),
        EnvironmentUpdate(begin=BeginGeneration("g"), open=OpenGate("g", 2)),
        EnvironmentUpdate(remove_gates=("g",), begin=BeginGeneration("g")),
    ],
)
def test_an_environment_update_that_fails_has_no_effect(stand: Stand, asked: EnvironmentUpdate) -> None:
    before = picture(stand)
    sent = stand.do(Op("/w", "", Code.UPDATE_ENVIRONMENT, asked), put("/w/child", "next", 1))
    assert isinstance(sent.outcome(0), WorldError)
    assert sent.outcome(1).revision == stand.world.revision  # type: ignore[union-attr]
    stand.done(Op("/w/child", "next", Code.DELETE_ENTRY, Delete()))
    assert picture(stand) == before
    stand.reopen()
    assert picture(stand) == before


def ask_gates() -> Any:
    from env_server.model.operations import Query, ReadAggregates

    return Query(ReadAggregates())


def picture(stand: Stand) -> dict[str, Any]:
    """All of the state that anybody can see."""
    nodes = stand.world._tree.nodes
    assert set(nodes.by_path.values()) == set(nodes.by_number.values())
    return copy.deepcopy(
        {
            path: (
                node.number,
                node.version,
                node.modified,
                node.declaration,
                node.open_generation,
                sorted(node.children),
                sorted((key, entry) for key, entry in node.entries.items()),
                {key: list(stream.items) for key, stream in node.streams.items()},
                None if node.tally is None else (node.tally.values(), node.tally.reported, node.tally.target),
            )
            for path, node in nodes.by_path.items()
        }
    )


def assert_tallies_are_right(stand: Stand) -> None:
    from env_server.state_tree.aggregates.tallies import Tally

    for node in stand.world._tree.nodes.by_number.values():
        if node.tally is not None:
            fresh = Tally(node.declaration.aggregates, node.gate)
            fresh.scan(node.entries.values())
            assert node.tally.values() == fresh.values()
            assert node.tally.reported == fresh.reported

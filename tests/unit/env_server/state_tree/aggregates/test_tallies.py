"""Aggregates and gates: exact after any changes, counted once an entry, and O(1) at the begin of a generation."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_server.model.changes import EventType
from env_server.model.environments import Aggregate, AggregateValue, Function, Gate, GateCause, GateState, Scope
from env_server.model.errors import GateClosed, Reason
from env_server.model.operations import (
    BeginGeneration,
    Code,
    EnvironmentUpdate,
    OpenGate,
    Precondition,
    Query,
    ReadAggregates,
    Transact,
    Write,
)
from env_server.model.operations import (
    Test as Condition,
)
from env_server.model.values import Json
from tests.engine import Op, Stand, add, drop, new_environment, put

BOUNDS = (-1.0, 0.0, 2.5)
ALL = tuple(
    Aggregate(function.name.lower(), function, bounds=BOUNDS if function is Function.HISTOGRAM else ())
    for function in Function
)
REPORTS = (
    Aggregate("mean", Function.MEAN, in_generation=True),
    Aggregate("count", Function.COUNT, in_generation=True),
    Aggregate("total", Function.COUNT),
)


def update(path: str, **parts: Any) -> Op:
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(**parts))


def begin(path: str = "/r", count: int | None = None, deadline_ms: int | None = None) -> Op:
    return update(path, begin=BeginGeneration("g", count, deadline_ms))


def read(stand: Stand, path: str = "/r") -> tuple[dict[str, AggregateValue], GateState | None]:
    seen: Any = stand.done(Op(path, "", Code.QUERY, Query(ReadAggregates())))[0]
    return {value.name: value for value in seen.values}, (seen.gates[0] if seen.gates else None)


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/a", aggregates=ALL), new_environment("/r", aggregates=REPORTS, gates=(Gate("g"),)))
    return stand


def test_aggregates_equal_fractions_after_any_changes(stand: Stand, seed: int) -> None:
    chance = random.Random(seed)
    model: dict[str, Any] = {}
    numbers: list[Any] = [0.1, -0.0, 1e308, -1e308, 5e-324, 2**62, -(2**62), 3, "text", None, True, Json(b"1")]
    for _ in range(60):
        ops = []
        for _ in range(chance.randrange(1, 20)):
            key = f"k{chance.randrange(30)}"
            if key in model and chance.random() < 0.3:
                del model[key]
                ops.append(drop("/a", key))
            else:
                model[key] = chance.choice([*numbers, chance.uniform(-5, 5), chance.randrange(-(10**6), 10**6)])
                ops.append(put("/a", key, model[key]))
        stand.done(*ops)
        check_aggregates(read(stand, "/a")[0], list(model.values()))
    stand.reopen()
    check_aggregates(read(stand, "/a")[0], list(model.values()))


def check_aggregates(seen: dict[str, AggregateValue], values: list[Any]) -> None:
    numbers = [value for value in values if type(value) in (int, float)]
    total = sum(map(Fraction, numbers), Fraction(0))
    integers = all(type(number) is int for number in numbers)
    assert {(value.entries, value.numbers) for value in seen.values()} == {(len(values), len(numbers))}
    assert seen["count"].value == len(values)
    expected = {"sum": None, "mean": None, "min": None, "max": None}
    if numbers:
        exact_sum = int(total) if integers and -(2**63) <= total < 2**63 else as_double(total)
        expected = {
            "sum": exact_sum,
            "mean": as_double(total / len(numbers)),
            "min": min(numbers),
            "max": max(numbers),
        }
    assert {name: seen[name].value for name in expected} == expected
    buckets = [0] * 4
    for number in numbers:
        buckets[sum(bound < number for bound in BOUNDS)] += 1
    assert seen["histogram"].buckets == tuple(buckets)


def as_double(number: Fraction) -> float | None:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return None


def test_a_field_of_documents_is_aggregated_and_its_numbers_have_64_bits(stand: Stand) -> None:
    aggregates = tuple(
        Aggregate(function.name, function, field=("x", "1"), bounds=(0.0,) if function is Function.HISTOGRAM else ())
        for function in Function
    )
    stand.done(new_environment("/f", aggregates=aggregates))
    documents = [
        b'{"x":[0,5]}',
        b'{"x":[0]}',
        b'{"x":{"1":2.5}}',
        b'{"x":[0,99999999999999999999]}',
        b'{"x":[0,1' + b"0" * 400 + b"]}",
        b'{"x":[0,true]}',
        b"[]",
    ]
    stand.done(*[put("/f", f"k{n}", Json(text)) for n, text in enumerate(documents)], put("/f", "plain", 1))
    for _ in range(2):
        seen = read(stand, "/f")[0]
        assert seen["SUM"].numbers == 3
        assert seen["SUM"].entries == 8
        assert seen["MAX"].value == 1e20
        assert seen["MIN"].value == 2.5
        stand.reopen()


def test_a_gate_opens_at_its_count_in_the_revision_of_the_last_report(stand: Stand) -> None:
    stand.done(begin(count=3))
    stand.done(put("/r", "a", 1.0, generation=1), put("/r", "b", 2.0, generation=1))
    stand.done(put("/r", "a", 3.0, generation=1))  # reports again: counts once, its last value
    values, gate = read(stand)
    assert gate is not None
    assert gate.reported == 2
    assert not gate.gate.opened
    last = stand.done(put("/r", "c", "no answer", generation=1))[0].revision  # type: ignore[union-attr]
    values, gate = read(stand)
    assert gate is not None
    assert (gate.gate.opened, gate.gate.cause, gate.gate.open_revision) == (True, GateCause.COUNT, last)
    assert values["mean"].value == 2.5, "a failed turn counts for the gate, not for the mean"
    assert values["mean"].numbers == 2
    opened = [row for row in stand.rows() if row[1] == 10]
    assert [(row[0], row[3]) for row in opened] == [(last, "g")]
    assert opened[0][4].document["reported"] == 3
    assert opened[0][4].document["aggregates"]["mean"] == 2.5


def test_late_reports_are_refused_and_enter_nothing(stand: Stand) -> None:
    stand.done(begin(count=1), put("/r", "a", 1.0, generation=1))
    for op in (put("/r", "a", 100.0, generation=1), put("/r", "b", 100.0, generation=2), drop("/r", "a", generation=1)):
        error = stand.do(op).error
        assert isinstance(error, GateClosed)
        assert error.metadata["generation"] == "1"
        assert error.metadata["opened"] == "true"
    assert stand.do(put("/a", "x", 1, generation=1)).error.reason is Reason.GATE_CLOSED
    values, gate = read(stand)
    assert values["mean"].value == 1.0
    assert gate is not None
    assert gate.reported == 1


def test_a_report_of_a_generation_that_the_same_transaction_begins_is_refused_not_lost(stand: Stand) -> None:
    beginning = Write("/r", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("g", 1)))
    report = Write("/r", "a", Code.SET, 1.0, (Precondition(Condition.GATE_GENERATION, 1),))
    error = stand.do(Op("/r", "", Code.TRANSACT, Transact((), (beginning, report), ()))).error
    assert error.reason is Reason.GATE_CLOSED
    assert "next revision" in error.message
    unguarded = replace(report, preconditions=())
    stand.done(Op("/r", "", Code.TRANSACT, Transact((), (beginning, unguarded), ())))
    values, gate = read(stand)
    assert gate is not None
    assert (gate.reported, values["count"].value, values["total"].value) == (0, 0, 1), "it came before the generation"
    stand.done(put("/r", "a", 2.0, generation=1))
    assert read(stand)[1].gate.opened  # type: ignore[union-attr]


def test_another_gate_counts_from_the_start_and_a_label_scans_nothing(stand: Stand) -> None:
    stand.done(begin(count=9), put("/r", "a", 1.0), put("/r", "b", 1.0), begin(), put("/r", "a", 1.0))
    stand.done(update("/r", remove_gates=("g",), set_gates=(Gate("h"),)))
    for _ in range(2):
        gate = read(stand)[1]
        assert gate is not None
        assert (gate.gate.generation, gate.reported) == (0, 2)
        stand.reopen()
    stand.done(drop("/r", "a"), drop("/r", "b"))
    assert read(stand)[1].reported == 0  # type: ignore[union-attr]
    tally = stand.world._tree.nodes.by_path["/a"].tally
    stand.done(update("/a", set_labels=(("x", "y"),)))
    assert stand.world._tree.nodes.by_path["/a"].tally is tally


def test_equal_extremes_are_told_alike_whatever_came_first(stand: Stand, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        numbers = [chance.choice([1, 1.0, 0, 0.0, -0.0, 2**53, float(2**53)]) for _ in range(6)]
        stand.done(*[put("/a", f"k{index}", chance.choice([5, 5.0])) for index in chance.sample(range(6), 6)])
        stand.done(*[put("/a", f"k{index}", numbers[index]) for index in chance.sample(range(6), 6)])
        seen = read(stand, "/a")[0]
        for name, end in (("min", min(numbers)), ("max", max(numbers))):
            is_double = any(type(number) is float for number in numbers if number == end)
            assert repr(seen[name].value) == repr(float(end) + 0.0 if is_double else int(end)), (name, numbers)


def test_a_gate_opens_at_its_deadline_once_also_after_a_restart(stand: Stand) -> None:
    stand.done(begin(deadline_ms=5000), put("/r", "a", 1.0, generation=1))
    stand.clock.advance(4)
    stand.reopen()
    stand.clock.advance(4.9)
    gate = read(stand)[1]
    assert gate is not None
    assert not gate.gate.opened, "another machine gives the deadline its full time again"
    stand.clock.advance(0.2)
    gate = read(stand)[1]
    assert gate is not None
    assert gate.gate.cause is GateCause.DEADLINE
    stand.clock.advance(100)
    assert len([row for row in stand.rows() if row[1] == 10]) == 1
    stand.reopen()
    stand.clock.advance(100)
    assert len([row for row in stand.rows() if row[1] == 10]) == 1


def test_a_new_generation_has_its_own_deadline_and_the_old_one_opens_nothing(stand: Stand) -> None:
    stand.done(begin(deadline_ms=5000))
    stand.clock.advance(4)
    stand.done(begin(deadline_ms=5000))
    stand.clock.advance(4)
    gate = read(stand)[1]
    assert gate is not None
    assert (gate.gate.generation, gate.gate.opened) == (2, False)
    stand.clock.advance(1)
    gate = read(stand)[1]
    assert gate is not None
    assert gate.gate.opened
    stand.done(begin(deadline_ms=5000), drop("/r", ""))
    stand.clock.advance(10)
    assert [row for row in stand.rows() if row[1] == 10 and row[0] > 8] == []


def test_an_operation_opens_the_gate_of_the_generation_it_names(stand: Stand) -> None:
    opening = update("/r", open=OpenGate("g", 1))
    assert stand.do(opening).error.reason is Reason.GATE_CLOSED
    stand.done(begin(count=5), opening)
    assert stand.do(opening).error.reason is Reason.GATE_CLOSED
    gate = read(stand)[1]
    assert gate is not None
    assert gate.gate.cause is GateCause.OPERATION
    assert stand.do(update("/r", open=OpenGate("x", 1))).error.reason is Reason.GATE_NOT_FOUND
    assert stand.do(update("/a", begin=BeginGeneration("g"))).error.reason is Reason.GATE_NOT_FOUND


def test_lowering_the_count_to_what_is_there_opens_the_gate(stand: Stand) -> None:
    stand.done(begin(count=5), put("/r", "a", 1), put("/r", "b", 2))
    stand.done(update("/r", set_gates=(Gate("g", 2),)))
    gate = read(stand)[1]
    assert gate is not None
    assert gate.gate.cause is GateCause.COUNT


def test_deleting_a_report_takes_it_out(stand: Stand) -> None:
    stand.done(begin(count=2), put("/r", "a", 1.0), drop("/r", "a"), put("/r", "b", 5.0))
    values, gate = read(stand)
    assert gate is not None
    assert (gate.reported, gate.gate.opened) == (1, False)
    assert values["mean"].value == 5.0


def test_the_begin_of_a_generation_does_not_look_at_a_million_entries(stand: Stand) -> None:
    count = 1_000_000
    entries = stand.world._tree.nodes.by_path["/r"]
    stand.done(*[put("/r", f"k{number}", 1.0) for number in range(100)])
    template = entries.entries["k0"]
    entries.entries.update((f"a{number}", template) for number in range(count))
    entries.tally = None
    stand.done(update("/r", set_gates=(Gate("g", 7),)))
    started = time.process_time()
    for _ in range(50):
        stand.done(begin(), put("/r", "a1", 2.0))
    assert (time.process_time() - started) / 50 < 0.02
    values, gate = read(stand)
    assert gate is not None
    assert (gate.reported, values["total"].value, values["count"].value) == (1, count + 100, 1)


def test_a_new_aggregate_counts_what_is_there_and_the_others_go_on(stand: Stand) -> None:
    stand.done(put("/a", "x", 4), add("/a", "c", 3))
    stand.send(put("/a", "y", 5))
    stand.send(update("/a", set_aggregates=(Aggregate("again", Function.SUM),), remove_aggregates=("histogram",)))
    stand.clock.settle()
    values, _ = read(stand, "/a")
    assert values["again"].value == values["sum"].value == 12
    told = {row[3]: row[4] for row in stand.rows() if row[1] == 11 and row[2] == "/a"}
    assert told["sum"] == 12, "the change of the same commit group is told"
    assert stand.do(update("/a", remove_aggregates=("histogram",))).error.reason is Reason.AGGREGATE_NOT_FOUND
    assert stand.do(update("/a")).error.reason is Reason.INVALID_FIELD


def test_an_aggregate_is_told_once_a_group_at_its_last_revision(stand: Stand) -> None:
    stand.done(*[put("/a", "x", number) for number in range(10)])
    told = [row for row in stand.rows() if row[1] == 11 and row[3] == "sum"]
    assert [(row[0], row[4]) for row in told] == [(stand.world.revision, 9)]


def test_the_opening_tells_the_histograms(stand: Stand) -> None:
    stand.done(update("/r", set_aggregates=(Aggregate("h", Function.HISTOGRAM, in_generation=True, bounds=BOUNDS),)))
    stand.done(begin(count=3), *[put("/r", key, value) for key, value in zip("abc", (-7, 0.0, 1), strict=True)])
    opened = [row[4].document for row in stand.rows() if row[1] == EventType.GATE_OPENED]
    assert [told["aggregates"]["h"] for told in opened] == [[1, 1, 1, 0]]


DECLARING = st.sampled_from(
    [
        Aggregate("x", Function.COUNT, in_generation=True),
        Aggregate("x", Function.SUM),
        Aggregate("y", Function.SUM, in_generation=True),
        Aggregate("y", Function.HISTOGRAM, bounds=BOUNDS),
        Aggregate("x", Function.COUNT, Scope.CHILDREN),
        Aggregate("y", Function.SUM, Scope.CHILDREN),
    ]
)
WHERE = st.sampled_from(["/t", "/t/c", "/t/d"])
COURSES = st.lists(
    st.one_of(
        st.builds(lambda path, key, value: put(path, key, value), WHERE, st.sampled_from("kl"), st.integers(0, 3)),
        st.builds(lambda path: update(path, begin=BeginGeneration("g", None, None)), WHERE),
        st.builds(lambda path, one: update(path, set_aggregates=(one,)), WHERE, DECLARING),
        st.builds(lambda path, name: update(path, remove_aggregates=(name,)), WHERE, st.sampled_from("xy")),
        st.builds(lambda path: update(path, remove_gates=("g",)), WHERE),
        st.builds(lambda path: update(path, set_gates=(Gate("g"),)), WHERE),
        st.builds(lambda path: drop(path, ""), st.sampled_from(["/t/c", "/t/d"])),
        st.builds(
            lambda path, one: new_environment(path, aggregates=(one,), gates=(Gate("g"),)),
            st.sampled_from(["/t/c", "/t/d"]),
            DECLARING,
        ),
        st.builds(lambda path, key: drop(path, key), WHERE, st.sampled_from("kl")),
    ),
    min_size=1,
    max_size=12,
)
FAILING = Write("/t", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_labels=("l",), open=OpenGate("no", 1)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(COURSES, st.sampled_from(["frame", "transaction", "taken back"])), min_size=1, max_size=5))
def test_who_hears_the_events_knows_the_aggregates(courses: list[tuple[list[Op], str]]) -> None:
    """Whatever is written, begun, declared anew, removed, deleted, or taken back."""
    stand = Stand()
    stand.done(new_environment("/t", gates=(Gate("g"),)), new_environment("/t/c", gates=(Gate("g"),)))
    for ops, how in courses:
        if how == "frame":
            stand.do(*ops)
        else:
            writes = tuple(Write(op.path, op.key, op.code, op.argument) for op in ops)
            failing = (FAILING,) * (how == "taken back")
            stand.do(Op("/", "", Code.TRANSACT, Transact(writes=(*writes, *failing))))
        check_told(stand)
    before = stand.world.revision
    stand.reopen()
    check_told(stand)
    assert stand.world.revision == before


def check_told(stand: Stand) -> None:
    told: dict[tuple[str, str], Any] = {}
    for _, type_, path, key, value in stand.rows():
        if type_ in (EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_DELETED):
            told = {name: known for name, known in told.items() if name[0] != path}
        if type_ in (EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_UPDATED):
            declared = value.document["aggregates"]
            told = {name: known for name, known in told.items() if name[0] != path or name[1] in declared}
        elif type_ == EventType.AGGREGATE_CHANGED:
            told[path, key] = value.document if isinstance(value, Json) else value
    for path in stand.world._tree.nodes.by_path:
        for name, seen in read(stand, path)[0].items():
            empty = [0] * len(seen.buckets) or (0 if seen.function is Function.COUNT else None)
            assert told.pop((path, name), empty) == (list(seen.buckets) or seen.value), (path, name)
    assert not told, "nothing is told of what is not there"

"""Roll-ups equal what adding everything up anew gives, whatever happened in between, and are told once a group."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from env_server.model.changes import EventType
from env_server.model.environments import Aggregate, AggregateValue, Declaration, Function, Gate, Scope
from env_server.model.errors import Reason
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    Query,
    ReadAggregates,
    RegisterEnvironment,
    Transact,
    Write,
)
from tests.engine import Op, Stand, drop, new_environment, put

BOUNDS = (-1.0, 0.0, 2.5)


def aggregates(scope: Scope, **beside: Any) -> tuple[Aggregate, ...]:
    return tuple(
        Aggregate(name.lower(), function, scope, bounds=BOUNDS if name == "HISTOGRAM" else (), **beside)
        for name, function in Function.__members__.items()
    )


OWN, CHILDREN = aggregates(Scope.ENTRIES), aggregates(Scope.CHILDREN)
MEASURED = ["/w/a", "/w/b", "/w/c/x", "/w/c/y", "/w/c/z/q"]
ROLLING = ["/w", "/w/c", "/w/c/z"]
NUMBERS = [0.1, -0.0, 0.0, 0, 1, 1.0, 1e308, -1e308, 5e-324, 2**62, -(2**62), 3, 2**53 + 1, float(2**53), "text", None]
VALUES = st.sampled_from(NUMBERS) | st.integers(-5, 5) | st.floats(-5, 5)


def read(stand: Stand, path: str) -> dict[str, AggregateValue]:
    seen: Any = stand.done(Op(path, "", Code.QUERY, Query(ReadAggregates())))[0]
    return {value.name: value for value in seen.values}


def update(path: str, **parts: Any) -> Op:
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(**parts))


def expected(values: list[Any]) -> dict[str, Any]:
    """The aggregates of these values, from fractions."""
    numbers = [value for value in values if type(value) in (int, float)]
    total = sum(map(Fraction, numbers), Fraction(0))
    buckets = [0] * (len(BOUNDS) + 1)
    for number in numbers:
        buckets[sum(bound < number for bound in BOUNDS)] += 1
    found: dict[str, Any] = {"count": len(values), "histogram": tuple(buckets)}
    for name, extreme in (("min", min), ("max", max)):
        end = extreme(numbers, default=None)
        is_double = any(type(number) is float and number == end for number in numbers)
        found[name] = None if end is None else repr(float(end) + 0.0 if is_double else int(end))
    integers = all(type(number) is int for number in numbers) and -(2**63) <= total < 2**63
    found["sum"] = None if not numbers else int(total) if integers else as_double(total)
    found["mean"] = None if not numbers else as_double(total / len(numbers))
    return found


def as_double(number: Fraction) -> float | None:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return None


def told(seen: dict[str, AggregateValue]) -> dict[str, Any]:
    found: dict[str, Any] = {name: value.value for name, value in seen.items()}
    found["histogram"] = seen["histogram"].buckets
    for name in ("min", "max"):
        found[name] = None if found[name] is None else repr(found[name])
    return found


class Sums:
    """The world as a dict, and what its roll-ups must be."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}

    def values_below(self, path: str) -> list[Any]:
        below = [entries for place, entries in self.entries.items() if place.startswith(path + "/")]
        return [value for entries in below for value in entries.values()]


WRITES = st.tuples(st.sampled_from(MEASURED), st.sampled_from("kl"), VALUES)
STEPS = st.one_of(
    st.tuples(st.just("put"), WRITES),
    st.tuples(st.just("put"), WRITES),
    st.tuples(st.just("drop"), WRITES),
    st.tuples(st.just("fail"), st.lists(WRITES, min_size=1, max_size=3)),
    st.tuples(st.just("fail to delete"), st.sampled_from([*MEASURED, "/w/c", "/w/c/z"])),
    st.tuples(st.just("delete"), st.sampled_from([*MEASURED, "/w/c", "/w/c/z"])),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("look"), st.sampled_from(ROLLING)),
    st.tuples(st.just("forget"), st.sampled_from(ROLLING)),
    st.tuples(st.just("redeclare"), st.sampled_from([*MEASURED, *ROLLING])),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=12))
def test_roll_ups_equal_what_is_added_up_anew(frames: list[list[tuple[str, Any]]]) -> None:
    stand, sums = Stand(), Sums()
    set_up(stand, sums)
    for frame in frames:
        for verb, about in frame:
            send(stand, sums, verb, about)
        stand.clock.settle()
        check(stand, sums)
    events = {row[2:4]: row[4] for row in stand.rows() if row[1] == EventType.AGGREGATE_CHANGED}
    if ("/w", "count") in events:  # those below may be new ones of which nothing was told yet
        assert events["/w", "count"] == read(stand, "/w")["count"].value, "the last event tells what is"
    stand.reopen()
    check(stand, sums)
    assert not [row for row in stand.rows() if row[0] > stand.world.revision]


def set_up(stand: Stand, sums: Sums) -> None:
    """Whatever of the environments is missing."""
    for path in sorted([*MEASURED, *ROLLING]):
        if path not in stand.world._tree.nodes.by_path:
            stand.done(new_environment(path, aggregates=CHILDREN if path in ROLLING else OWN))
            if path in MEASURED:
                sums.entries[path] = {}


def send(stand: Stand, sums: Sums, verb: str, about: Any) -> None:
    if verb == "put":
        path, key, value = about
        sums.entries[path][key] = value
        stand.send(put(path, key, value))
    elif verb == "drop":
        path, key, _ = about
        if sums.entries[path].pop(key, ...) is not ...:
            stand.send(drop(path, key))
    elif verb == "fail":
        writes = [Write(path, key, Code.SET, value) for path, key, value in about]
        last = Write("/nowhere", "k", Code.SET, 1)
        stand.send(Op("/", "", Code.TRANSACT, Transact((), (*writes, last), ())))
    elif verb == "fail to delete":
        gone = Write(about, "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))
        back = Write(about, "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(aggregates=OWN)))
        last = Write("/nowhere", "k", Code.SET, 1)
        stand.send(Op("/", "", Code.TRANSACT, Transact((), (gone, back, last), ())))
    elif verb == "delete":
        stand.send(Op(about, "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
        for path in [path for path in sums.entries if f"{path}/".startswith(f"{about}/")]:
            del sums.entries[path]
        set_up(stand, sums)
    elif verb == "reopen":
        stand.clock.settle()
        stand.reopen()
    elif verb == "look":
        read(stand, about)
    elif verb == "forget":
        names = tuple(aggregate.name for aggregate in CHILDREN)
        stand.send(update(about, remove_aggregates=names), update(about, set_aggregates=CHILDREN))
    else:
        stand.send(update(about, set_labels=(("a", "b"),)))


def check(stand: Stand, sums: Sums) -> None:
    for path in ROLLING:
        assert told(read(stand, path)) == expected(sums.values_below(path)), path
        assert {value.numbers for value in read(stand, path).values()} == {
            sum(type(value) in (int, float) for value in sums.values_below(path))
        }
    for path in MEASURED:
        assert told(read(stand, path)) == expected(list(sums.entries[path].values())), path


def test_every_level_is_told_once_a_group_at_its_last_revision() -> None:
    stand, sums = Stand(), Sums()
    set_up(stand, sums)
    before = stand.world.revision
    stand.done(*[put("/w/c/z/q", "k", number) for number in range(5)], put("/w/a", "k", 7))
    changed = [row for row in stand.rows() if row[0] > before and row[1] == EventType.AGGREGATE_CHANGED]
    events = [row for row in changed if row[3] == "sum"]
    assert {(row[0], row[2], row[4]) for row in events} == {
        (stand.world.revision, path, value)
        for path, value in [("/w/c/z/q", 4), ("/w/c/z", 4), ("/w/c", 4), ("/w", 11), ("/w/a", 7)]
    }


def test_a_child_of_another_kind_or_bounds_has_no_share() -> None:
    stand = Stand()
    stand.done(
        new_environment("/p", aggregates=(Aggregate("n", Function.SUM, Scope.CHILDREN), histogram((0.0,)))),
        new_environment("/p/sum", aggregates=(Aggregate("n", Function.SUM),)),
        new_environment("/p/mean", aggregates=(Aggregate("n", Function.MEAN), histogram((0.0, 1.0)))),
        new_environment("/p/none"),
        *[put(f"/p/{child}", "k", 5) for child in ("sum", "mean", "none")],
    )
    assert read(stand, "/p")["n"].value == 5
    assert sum(read(stand, "/p")["h"].buckets) == 0
    alike = (Aggregate("n", Function.SUM), histogram((0.0,), Scope.ENTRIES))
    stand.done(update("/p/mean", set_aggregates=alike))
    assert read(stand, "/p")["n"].value == 10
    assert read(stand, "/p")["h"].buckets == (0, 1)


def histogram(bounds: tuple[float, ...], scope: Scope = Scope.CHILDREN) -> Aggregate:
    return Aggregate("h", Function.HISTOGRAM, scope, bounds=bounds)


def test_what_children_count_in_a_generation_leaves_with_it_in_its_revision() -> None:
    stand = Stand()
    mean = Aggregate("mean", Function.MEAN, in_generation=True)
    stand.done(
        new_environment("/p", aggregates=(Aggregate("mean", Function.MEAN, Scope.CHILDREN),)),
        new_environment("/p/a", aggregates=(mean,), gates=(Gate("g"),)),
        update("/p/a", begin=BeginGeneration("g")),
        put("/p/a", "k", 4, generation=1),
    )
    assert read(stand, "/p")["mean"].value == 4.0
    stand.done(update("/p/a", begin=BeginGeneration("g")))
    assert read(stand, "/p")["mean"].value is None
    stand.done(put("/p/a", "k", 6, generation=2))
    assert read(stand, "/p")["mean"].value == 6.0


@pytest.mark.parametrize("wrong", [{"in_generation": True}, {"field": ("x",)}])
def test_an_aggregate_over_children_has_neither_generation_nor_field(wrong: dict[str, Any]) -> None:
    error = Stand().do(new_environment("/p", aggregates=(Aggregate("n", Function.SUM, Scope.CHILDREN, **wrong),))).error
    assert error.reason is Reason.INVALID_FIELD


def test_a_change_costs_the_depth_whatever_the_number_of_children() -> None:
    stand = Stand()
    stand.done(new_environment("/p", aggregates=(Aggregate("n", Function.SUM, Scope.CHILDREN),)))
    stand.done(*[new_environment(f"/p/c{n}", aggregates=(Aggregate("n", Function.SUM),)) for n in range(1000)])
    tree = stand.world._tree
    followed = []
    roll_up = tree.nodes.by_path["/p"].tally.roll_ups["n"]  # type: ignore[union-attr]
    follow = type(roll_up).follow
    stand.send(*[put("/p/c1", "k", number) for number in range(100)])
    assert list(tree.roll_ups.noted) == [tree.nodes.by_path["/p/c1"]], "100 changes are one look"
    try:
        type(roll_up).follow = lambda self, number, tally: followed.append(number) or follow(self, number, tally)  # type: ignore[method-assign, func-returns-value, assignment]
        stand.clock.settle()
    finally:
        type(roll_up).follow = follow  # type: ignore[method-assign]
    assert len(followed) == 1
    assert read(stand, "/p")["n"].value == 99

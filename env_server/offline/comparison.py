"""Two states of a world side by side, and aggregates against exact arithmetic."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from env_server.model.entries import STREAM, Entry, StreamEnds
from env_server.model.environments import Aggregate, AggregateValue, Function, Scope
from env_server.model.values import INT_MAX, INT_MIN, Json
from env_server.offline.contents import Problems, State
from env_server.state_tree.nodes import Node
from env_server.storage import layout
from env_server.storage.outcomes import encode_outcome

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def compare(stored: State, replayed: State, problems: Problems) -> None:
    """Adds what the stored state and the one that the whole log tells do not share."""
    theirs = replayed.tree.nodes.by_number
    mine = stored.tree.nodes.by_number
    for number in sorted(mine.keys() | theirs.keys()):
        where = f"environment {number}"
        if number not in mine or number not in theirs:
            which = "the state tables hold it, the log does not" if number in mine else "the state tables lack it"
            problems.add(layout.ENVIRONMENTS, where, which)
            continue
        _compare_nodes(mine[number], theirs[number], where, problems)
    for table, ours, others in (
        (layout.PRODUCERS, _marks(stored), _marks(replayed)),
        (layout.FACTS, _facts(stored), _facts(replayed)),
    ):
        for name in _differing(ours, others):
            problems.add(table, repr(name), "the state tables and the log tell different things")


def check_streams(state: State, problems: Problems) -> None:
    """Every stream has exactly the items that its ends tell of."""
    for node in state.tree.nodes.by_number.values():
        for key, entry in node.entries.items():
            ends = entry.value
            if entry.kind != STREAM or not isinstance(ends, StreamEnds):
                continue
            found = [item.sequence for item in node.streams[key].items] if key in node.streams else []
            if found != list(range(ends.first, ends.next)):
                what = f"{len(found)} items where the entry tells of items {ends.first} to {ends.next - 1}"
                problems.add(layout.ITEMS, f"environment {node.number}, key {key!r}", what)


def check_aggregates(state: State, problems: Problems) -> int:
    """Every aggregate over entries, and every count of reports, is the exact one; returns how many there are."""
    count = 0
    for node in state.tree.nodes.by_number.values():
        tally, gate = node.tally, node.gate
        if tally is None:
            continue
        begun = gate.begin_revision if gate is not None and gate.generation else 0
        reports = [entry for entry in node.entries.values() if gate is not None and entry.modified > begun]
        where = f"environment {node.number}"
        if gate is not None and gate.generation and not gate.members_path and tally.reported != len(reports):
            problems.add(layout.ENVIRONMENTS, where, f"{tally.reported} reports instead of {len(reports)}")
        told = {value.name: value for value in tally.values()}
        for aggregate in node.declaration.aggregates:
            if aggregate.scope is not Scope.ENTRIES or aggregate.name not in told:
                continue
            count += 1
            covered = reports if aggregate.in_generation else list(node.entries.values())
            if not _is_exact(aggregate, told[aggregate.name], covered):
                problems.add(layout.ENVIRONMENTS, where, f"aggregate {aggregate.name!r} is not the exact one")
    return count


def _compare_nodes(mine: Node, theirs: Node, where: str, problems: Problems) -> None:
    for name in ("path", "declaration", "version", "created", "modified"):
        if getattr(mine, name) != getattr(theirs, name):
            problems.add(layout.ENVIRONMENTS, where, f"the state tables and the log differ in {name}")
    for key in _differing(mine.entries, theirs.entries):
        what = f"the state tables tell {mine.entries.get(key)}, the log {theirs.entries.get(key)}"
        problems.add(layout.ENTRIES, f"{where}, key {key!r}", what)
    for key in _differing(
        {key: list(stream.items) for key, stream in mine.streams.items()},
        {key: list(stream.items) for key, stream in theirs.streams.items()},
    ):
        problems.add(layout.ITEMS, f"{where}, key {key!r}", "the state tables and the log tell different items")


def _marks(state: State) -> dict[str, tuple[int, bytes]]:
    """Producers' marks in the form in which they are stored: errors are equal when they say the same."""
    producers = state.producers
    return {
        name: (mark[0], encode_outcome(producers.repeated(name, mark[0], mark)))
        for name, mark in producers.marks.items()
    }


def _facts(state: State) -> dict[tuple[int, str], bytes]:
    """Each by kind and key: tables and log tell them in different orders."""
    return {(int(kind), key): value for kind, facts in state.facts.items() for key, value in facts.items()}


def _differing(mine: dict[Any, Any], theirs: dict[Any, Any]) -> Iterator[Any]:
    for name in sorted(mine.keys() | theirs.keys()):
        if name not in mine or name not in theirs or not _is_same(mine[name], theirs[name]):
            yield name


def _is_same(mine: Any, theirs: Any) -> bool:
    """Equal, and told alike: 1, 1.0 and True are equal, and zeros of both signs."""
    if mine != theirs:
        return False
    if isinstance(mine, Entry) and mine.value:  # by far the most; nothing that is equal to it looks otherwise
        return type(mine.value) is type(theirs.value)
    return mine is theirs or repr(mine) == repr(theirs)


def _is_exact(aggregate: Aggregate, told: AggregateValue, covered: list[Entry]) -> bool:
    found = [number for entry in covered if (number := _number_in(entry.value, aggregate.field)) is not None]
    if (told.entries, told.numbers) != (len(covered), len(found)):
        return False
    return _is_exact_value(aggregate, told, [Fraction(number) for number in found])


def _is_exact_value(aggregate: Aggregate, told: AggregateValue, numbers: list[Fraction]) -> bool:
    match aggregate.function:
        case Function.COUNT:
            return True
        case Function.HISTOGRAM:
            edges = [*map(Fraction, aggregate.bounds)]
            buckets = [0] * (len(edges) + 1)
            for exact in numbers:
                buckets[sum(exact > edge for edge in edges)] += 1
            return list(told.buckets) == buckets
        case Function.MIN | Function.MAX if numbers:
            wanted = min(numbers) if aggregate.function is Function.MIN else max(numbers)
            return told.value is not None and Fraction(told.value) == wanted
        case Function.SUM | Function.MEAN if numbers:
            total = sum(numbers, Fraction(0))
            return _is_rounded(told.value, total / len(numbers) if aggregate.function is Function.MEAN else total)
        case _:
            return told.value is None


def _is_rounded(told: int | float | None, exact: Fraction) -> bool:
    """Whether a value is the exact one, or the double nearest to it; none when no double holds it."""
    try:
        nearest = float(exact)
    except OverflowError:
        return told is None or told == exact
    return told is not None and told in (exact, nearest)


def _number_in(value: object, tokens: tuple[str, ...]) -> int | float | None:
    """The number that an aggregate counts in a value, found in another way than the server does."""
    found: Any = value
    if tokens:
        found = value.document if isinstance(value, Json) else None
        for token in tokens:
            if isinstance(found, dict):
                found = found.get(token)
            elif isinstance(found, list) and _INDEX.fullmatch(token) and int(token) < len(found):
                found = found[int(token)]
            else:
                return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if isinstance(found, int) and not INT_MIN <= found <= INT_MAX:
        try:
            return float(found)
        except OverflowError:
            return None
    return found

"""Two states of a world side by side, and aggregates against exact arithmetic."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from env_server.model.entries import MEMBER, STREAM, Entry, StreamEnds
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
    """Every aggregate, over entries or children, is the exact one; returns how many there are."""
    count = 0
    for node in state.tree.nodes.by_number.values():
        told = {value.name: value for value in state.tree.aggregates(node)}
        for aggregate in node.declaration.aggregates:
            count += 1
            found = told.get(aggregate.name)
            if found is None or not _is_exact(aggregate, found, _covered(node, aggregate)):
                what = f"aggregate {aggregate.name!r} is not the exact one"
                problems.add(layout.ENVIRONMENTS, f"environment {node.number}", what)
    return count


def check_gates(state: State, problems: Problems) -> None:
    """Every gate counts its reports, and the members that it waits for, as they are; none collects beyond its end."""
    for node in state.tree.nodes.by_number.values():
        gate = node.gate
        if gate is None or not gate.generation:
            continue
        reports = _reports(node)
        members = state.tree.nodes.by_path.get(gate.members_path)
        awaited = [] if members is None else [key for key, entry in members.entries.items() if entry.kind == MEMBER]
        missing = [key for key in awaited if key not in reports]
        where = f"environment {node.number}"
        reported = node.tally.reported if node.tally is not None else -1
        if reported != len(reports):
            problems.add(layout.ENVIRONMENTS, where, f"{reported} reports instead of {len(reports)}")
        waits = node.attendance
        if (waits is not None) != (gate.collecting and bool(gate.members_path)):
            problems.add(layout.ENVIRONMENTS, where, "its gate waits for members and should not, or the reverse")
        elif waits is not None and (waits.members, waits.missing) != (len(awaited), len(missing)):
            what = f"waits for {waits.missing} of {waits.members} members instead of {len(missing)} of {len(awaited)}"
            problems.add(layout.ENVIRONMENTS, where, what)
        if gate.collecting and (0 < gate.count_target <= len(reports) or (awaited and not missing)):
            problems.add(layout.ENVIRONMENTS, where, "its gate collects although all that it waits for is there")


def _reports(node: Node) -> dict[str, Entry]:
    """Entries that count for the generation of the node's gate; all of them when it has no gate."""
    begun = node.gate.begin_revision if node.gate is not None else 0
    return {key: entry for key, entry in node.entries.items() if entry.reported > begun}


def _covered(node: Node, aggregate: Aggregate) -> tuple[int, list[int | float]]:
    """How many entries an aggregate covers, in its environment or below it, and the numbers in them."""
    if aggregate.scope is Scope.ENTRIES:
        entries = (_reports(node) if aggregate.in_generation else node.entries).values()
        numbers = (_number_in(entry.value, aggregate.field) for entry in entries)
        return len(entries), [number for number in numbers if number is not None]
    count, found = 0, []
    for child in node.children.values():
        for below in child.declaration.aggregates:
            if (below.name, below.function, below.bounds) == (aggregate.name, aggregate.function, aggregate.bounds):
                entries_below, numbers_below = _covered(child, below)
                count += entries_below
                found += numbers_below
    return count, found


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


def _is_exact(aggregate: Aggregate, told: AggregateValue, covered: tuple[int, list[int | float]]) -> bool:
    entries, numbers = covered
    if (told.entries, told.numbers) != (entries, len(numbers)):
        return False
    return _is_exact_value(aggregate, told, [Fraction(number) for number in numbers])


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

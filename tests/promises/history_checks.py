"""Two judges of a recorded history, independent of each other: by the revisions that the server told, and by search.

By revision: sorting, no search. Writes are replayed in the order of the event log; every read and every failure must
fit the state at its revision; whoever was asked after somebody else was answered has seen what that one has; what
nobody was told is decided by the log.
By search (Wing and Gong, with Lowe's memory of what was tried): each key alone, from times and answers only. What the
log tells is tried first, and believed by nobody: an order counts if times and answers allow it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from env_api.v1 import events_pb2

from tests.event_rows import Row
from tests.promises.histories import Call, Told

STEPS_MAX = 300_000


class State(NamedTuple):
    """Of one key; version 0 = absent."""

    value: int | None = None
    version: int = 0


ABSENT = State()


class HistoryError(AssertionError):
    """The history is not one that a correct server could have caused."""


def require(holds: bool, problem: str, *about: object) -> None:
    """Raises HistoryError unless it holds."""
    if not holds:
        raise HistoryError(f"{problem}: {', '.join(map(str, about))}")


def apply(state: State, one: Call) -> tuple[State, Told]:
    """What a correct server does to a key, and says."""
    if one.verb == "read":
        return state, Told("", state.value, state.version) if state.version else Told("ENTRY_NOT_FOUND")
    if one.expected_version and state.version != one.expected_version:
        return state, Told("PRECONDITION_FAILED")
    if one.verb == "delete":
        return (ABSENT, Told()) if state.version else (state, Told("ENTRY_NOT_FOUND"))
    if one.verb == "add":
        total = (state.value or 0) + one.argument
        return State(total, state.version + 1), Told("", total, state.version + 1)
    return State(one.argument, state.version + 1), Told("", None, state.version + 1)


# ---- by revision ----


def check_by_revision(calls: list[Call], log: list[Row]) -> None:
    """Raises HistoryError."""
    by_name = {one.name: one for one in calls}
    require(len(by_name) == len(calls), "two calls of one name")
    effects: dict[str, int] = {}
    states: dict[str, tuple[list[int], list[State]]] = defaultdict(lambda: ([0], [ABSENT]))
    for row in log:
        require(row.actor in by_name, "an event of nobody", row)
        require(row.actor not in effects, "an op took effect twice", row)
        one = by_name[row.actor]
        effects[row.actor] = row.revision
        revisions, known = states[row.key]
        require(row.revision > revisions[-1], "revisions rise", row)
        state, told = apply(known[-1], one)
        require(not told.reason, "it should have failed", row, one, known[-1])
        _check_event(row, one, known[-1], state)
        if one.returned_ns is not None:
            require(one.told == told, "the answer is not what happened", one, told)
            require(one.revision == row.revision, "the answer names another revision", one, row)
        revisions.append(row.revision)
        known.append(state)
    for one in calls:
        done = one.returned_ns is not None and not one.told.reason and one.verb != "read"
        require(not done or one.name in effects, "an acknowledged write is lost", one)
    _check_times(calls, effects, states)
    _check_send_order(calls, effects)


def _check_event(row: Row, one: Call, before: State, after: State) -> None:
    deleted = row.type == events_pb2.EVENT_TYPE_ENTRY_DELETED
    require(row.key == one.key and deleted == (one.verb == "delete"), "the event is of another op", row, one)
    require(row.version == before.version + 1, "versions are dense", row, before)
    require(deleted or row.value == ("int_value", after.value), "the event tells another value", row, after)


def _check_times(calls: list[Call], effects: dict[str, int], states: dict[str, tuple[list[int], list[State]]]) -> None:
    """Whoever was asked after an answer has seen what the answer told of."""
    ends = sorted((one for one in calls if one.returned_ns is not None), key=lambda one: one.returned_ns or 0)
    seen, at = 0, 0
    lowest: dict[str, int] = {}
    for one in sorted(calls, key=lambda one: one.invoked_ns):
        while at < len(ends) and (ends[at].returned_ns or 0) < one.invoked_ns:
            seen = max(seen, effects.get(ends[at].name, ends[at].revision))
            at += 1
        lowest[one.name] = seen
        if one.name in effects:
            require(effects[one.name] > seen, "a write came before what was answered before it", one, seen)
    begins = sorted((one for one in calls if one.name in effects), key=lambda one: one.invoked_ns)
    next_revision, at = 1 << 62, len(begins) - 1
    for one in reversed(ends):
        while at >= 0 and begins[at].invoked_ns > (one.returned_ns or 0):
            next_revision = min(next_revision, effects[begins[at].name])
            at -= 1
        if one.name not in effects:
            _check_reading(one, lowest[one.name], next_revision - 1, states[one.key])


def _check_reading(one: Call, lowest: int, highest: int, history: tuple[list[int], list[State]]) -> None:
    """A read, or a failure, fits the state at its revision; without one, at some revision that it may rest on."""
    revisions, known = history
    if one.revision:
        require(lowest <= one.revision <= highest, "it saw too little or too much", one, lowest, highest)
        lowest = highest = one.revision
    first, last = bisect_right(revisions, lowest) - 1, bisect_right(revisions, highest) - 1
    fits = any(apply(state, one)[1] == one.told for state in known[first : last + 1])
    require(fits, "no state that it may have seen is like that", one, known[first : last + 1][:5])


def _check_send_order(calls: list[Call], effects: dict[str, int]) -> None:
    """A client's ops on a key take effect in the order in which they were sent."""
    last: dict[tuple[str, str], int] = {}
    for one in calls:
        if one.name in effects:
            place = (one.client, one.key)
            require(effects[one.name] > last.get(place, 0), "sent later, done earlier", one)
            last[place] = effects[one.name]


# ---- by search ----


def check_by_search(calls: list[Call], log: Sequence[Row] = ()) -> None:
    """Raises HistoryError: some key's calls have no order that explains times and answers."""
    told = {row.actor: row.revision for row in log}
    by_key: dict[str, list[Call]] = defaultdict(list)
    for one in calls:
        by_key[one.key].append(one)
    for key, mine in by_key.items():
        require(find_order(mine, told), "no order explains what was answered", key)


def find_order(calls: list[Call], told: Mapping[str, int]) -> bool:
    """Whether the calls of one key can be put in an order; a call without an answer may have happened or not.

    `told`: the place of some of them in an order that is worth trying first. Without one, or with a wrong one, the
    answer is the same, later: adding up in any order comes to the same, so that a few that were cut off go a long way.

    Raises:
        RuntimeError: it cannot be said within STEPS_MAX steps.
    """
    by_time = sorted(calls, key=lambda one: one.invoked_ns)
    answered = [one for one in by_time if one.returned_ns is not None]
    lost = [one for one in by_time if one.returned_ns is None]
    wanted = (1 << len(answered)) - 1
    tried: set[tuple[int, State]] = set()
    path: list[Iterator[tuple[int, State]]] = [iter([(0, ABSENT)])]
    for _ in range(STEPS_MAX):
        if not path:
            return False
        step = next(path[-1], None)
        if step is None:
            path.pop()
            continue
        done, state = _take_what_changes_nothing(answered, *step)
        if done & wanted == wanted:
            return True
        if (done, state) not in tried:
            tried.add((done, state))
            path.append(_steps(answered, lost, done, state, told))
    raise RuntimeError(f"no order found within {STEPS_MAX} steps")


def _first(calls: list[Call], done: int) -> tuple[list[int], int]:
    """Those that may come next: no other was answered before they were asked; and the first of their ends."""
    found, end = [], 1 << 62
    for number in range((~done & (done + 1)).bit_length() - 1, len(calls)):
        if not done >> number & 1:
            one = calls[number]
            if one.invoked_ns > end:
                break
            found.append(number)
            end = min(end, one.returned_ns or end)
    return found, end


def _take_what_changes_nothing(calls: list[Call], done: int, state: State) -> tuple[int, State]:
    """A call that fits and changes nothing may as well come at once: no other choice is better."""
    before = -1
    while done != before:
        before = done
        for number in _first(calls, done)[0]:
            if apply(state, calls[number]) == (state, calls[number].told):
                done |= 1 << number
    return done, state


def _steps(
    answered: list[Call], lost: list[Call], done: int, state: State, told: Mapping[str, int]
) -> Iterator[tuple[int, State]]:
    """What may come next. Calls of which nothing is known come last: often they need not have happened."""
    numbers, end = _first(answered, done)
    found = []
    for number in numbers:
        one = answered[number]
        after, answer = apply(state, one)
        if answer == one.told:
            found.append((told.get(one.name, one.revision), done | 1 << number, after))
    for number, one in enumerate(lost, len(answered)):
        if not done >> number & 1 and one.invoked_ns <= end:
            after, _ = apply(state, one)
            if after != state:
                found.append((told.get(one.name, 1 << 62), done | 1 << number, after))
    found.sort(key=itemgetter(0))
    return iter([(after_it, state_then) for _, after_it, state_then in found])

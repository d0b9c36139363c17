"""What rule agents do when their time has come, as their rule says it, checked: columns, and who has failed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ecumene.client.records import TurnStatus

from agent_runtime.agents.agent import Routine, RuleAgents
from agent_runtime.agents.times import read_times
from agent_runtime.model.wakes import NEVER_NS, TIME_MAX_NS
from agent_runtime.turns.deciding import all_numbers, show_value
from agent_runtime.turns.ends import TurnEnd, describe_failure, name_exit

KINDS = (int, float)
"""A block carries numbers of one kind."""


class Acts(NamedTuple):
    """What some of a pack do in one block, by their places."""

    places: list[int]
    values: list[Any]
    positions: list[Any] | None


@dataclass(slots=True)
class Decided:
    """What a pack does, by place. `path` "" = nothing.

    Attributes:
        values: None = that agent does nothing.
        positions: where its entry is placed; None = nowhere.
        ends: of those whose turns do not end well.
    """

    path: str
    next_ns: list[int]
    values: list[Any]
    positions: list[Any] | None = None
    ends: dict[int, TurnEnd] = field(default_factory=dict)

    def list_acts(self) -> Iterator[Acts]:
        """Of those who do something and have not failed: first the whole numbers, then the others."""
        if not self.path:
            return
        acting = [place for place, value in enumerate(self.values) if value is not None and place not in self.ends]
        for kind in KINDS:
            if places := [place for place in acting if type(self.values[place]) is kind]:
                where = None if self.positions is None else [self.positions[place] for place in places]
                yield Acts(places, [self.values[place] for place in places], where)


def decide_routine(agents: RuleAgents, keys: Sequence[str], times_ns: Sequence[int]) -> Decided:
    """What the rule says for agents whose time has come; each is asked alone if it fails for all together."""
    try:
        return _ask(agents, keys, times_ns)
    except BaseException as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
        if len(keys) == 1:
            failed = TurnEnd(TurnStatus.ERROR, describe_failure(name_exit(error)))
            return Decided("", [NEVER_NS], [None], ends={0: failed})
        return _join([decide_routine(agents, [key], [at_ns]) for key, at_ns in zip(keys, times_ns, strict=True)])


def _ask(agents: RuleAgents, keys: Sequence[str], times_ns: Sequence[int]) -> Decided:
    """Raises whatever the rule does, and ValueError: its columns do not fit."""
    routine: Routine = agents.wake_many(keys, times_ns)
    next_ns: list[int] = read_times(routine.next_ns, len(keys)).tolist()
    values = _list(routine.values, len(keys))
    positions = None if routine.positions is None else _list(routine.positions, len(keys))
    acts = any(value is not None for value in values)
    decided = Decided(routine.path if acts else "", next_ns, values, positions)
    for place, (at_ns, again_ns) in enumerate(zip(times_ns, next_ns, strict=True)):
        if again_ns != NEVER_NS and not at_ns < again_ns <= TIME_MAX_NS:
            _fail(decided, place, f"woken at {at_ns} ns, it cannot be woken next at {again_ns}")
            next_ns[place] = NEVER_NS
    if acts and not (decided.path and all_numbers(values)):
        for place, value in enumerate(values):
            if value is not None and not all_numbers([value]):
                _fail(decided, place, f"{show_value(value)} is no finite number of 64 bits")
            elif value is not None and not decided.path:
                _fail(decided, place, f"{show_value(value)} is to be set, and the rule names no path")
    _check_positions(decided)
    return decided


def _list(column: Any, count: int) -> list[Any]:
    """A column as a list; all None where there is none. Raises ValueError if it has another length."""
    if column is None:
        return [None] * count
    cells = column.tolist() if hasattr(column, "tolist") else list(column)
    if len(cells) != count:
        raise ValueError(f"{len(cells)} elements for {count} agents")
    return cells


def _check_positions(decided: Decided) -> None:
    """Whoever acts has a position, if there are any: one or two finite numbers, as many as the first of all."""
    if decided.positions is None:
        return
    coordinates = 0
    for place, (value, position) in enumerate(zip(decided.values, decided.positions, strict=True)):
        if value is None or place in decided.ends:
            continue
        if position is None:
            _fail(decided, place, "it has no position, and others of the group have one")
        elif not _is_position(position) or len(position) != (coordinates or len(position)):
            _fail(decided, place, f"{show_value(position)} is no position here")
        else:
            coordinates = len(position)


def _is_position(position: Any) -> bool:
    if not isinstance(position, list | tuple) or len(position) not in (1, 2):
        return False
    return all(type(number) in KINDS and math.isfinite(number) for number in position)


def _fail(decided: Decided, place: int, reason: str) -> None:
    decided.ends[place] = TurnEnd(TurnStatus.ERROR, reason)


def _join(some: Sequence[Decided]) -> Decided:
    """What agents decided one by one. They act at one path: whoever wants another has failed."""
    path = next((one.path for one in some if one.path and not one.ends), "")
    joined = Decided(path, [one.next_ns[0] for one in some], [one.values[0] for one in some])
    if any(one.positions is not None for one in some):
        joined.positions = [one.positions[0] if one.positions else None for one in some]
    for place, one in enumerate(some):
        if one.ends:
            joined.ends[place] = one.ends[0]
        elif one.path not in ("", path):
            _fail(joined, place, f"others of the group act at {path}, not at {one.path}")
    _check_positions(joined)
    return joined

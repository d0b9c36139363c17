"""What rule agents decide, checked: numbers, and how the turns ended of those who have none."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from ecumene.client import EcumeneError
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import judge_failure
from agent_runtime.actions.validation import INT_MAX, INT_MIN
from agent_runtime.agents.agent import RuleAgents
from agent_runtime.model.actions import REPORT
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.notices import Notice
from agent_runtime.turns.ends import NOTHING_ASKED, TurnEnd, describe_failure, name_exit
from agent_runtime.turns.part_context import PartContext

logger = logging.getLogger("ecumene.runtime")

SHOWN_CHARS_MAX = 80
Failures = dict[int, TurnEnd]
"""How turns without a number ended, by the agent's place."""


async def decide(
    context: PartContext, agents: RuleAgents, keys: list[str], notice: Notice
) -> tuple[list[Any], Failures]:
    """A number for each agent, or the reason why it has none."""
    if notice.ask is None:
        problem = notice.ask_problem
        return fail_all(keys, TurnEnd(TurnStatus.ERROR, problem) if problem else NOTHING_ASKED)
    try:
        await context.places.find(REPORT, notice.ask.path)
    except ActionRefusedError as error:
        return fail_all(keys, TurnEnd(TurnStatus.ERROR, error.problem))
    except EcumeneError as error:
        return fail_all(keys, TurnEnd(*judge_failure(error)))
    try:
        values = _ask_rule(agents, keys, notice)
    except BaseException as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
        told = describe_failure(error)
        logger.warning("group %s: decide_many failed, asking each agent alone: %s", context.group.name, told)
        return _decide_each(agents, keys, notice)
    if all_numbers(values):
        return values, {}
    failures = {
        place: _fall_back(agents, keys, place, notice, values, _make_refusal(values[place]))
        for place, value in enumerate(values)
        if not all_numbers([value])
    }
    return values, failures


def all_numbers(values: Sequence[Any]) -> bool:
    """Whether all values are finite floats or ints of 64 bits, as a report of numbers holds them."""
    kinds = set(map(type, values))
    if kinds <= {float}:
        return all(map(math.isfinite, values))
    if kinds == {int}:
        return min(values) >= INT_MIN and max(values) <= INT_MAX
    if kinds != {float, int}:
        return False
    try:
        if not all(map(math.isfinite, values)):
            return False
    except OverflowError:  # an int too long to be made a float
        return False
    if min(values) >= INT_MIN and max(values) <= INT_MAX:
        return True
    return all(type(value) is float or INT_MIN <= value <= INT_MAX for value in values)


def fail_all(keys: list[str], end: TurnEnd) -> tuple[list[Any], Failures]:
    """No number for anyone."""
    return [None] * len(keys), dict.fromkeys(range(len(keys)), end)


def _decide_each(agents: RuleAgents, keys: list[str], notice: Notice) -> tuple[list[Any], Failures]:
    values: list[Any] = [None] * len(keys)
    failures: Failures = {}
    for place, key in enumerate(keys):
        try:
            values[place] = _ask_rule(agents, [key], notice)[0]
        except BaseException as error:  # noqa: BLE001 - the turn edge, as above
            failures[place] = _fall_back(agents, keys, place, notice, values, name_exit(error))
            continue
        if not all_numbers(values[place : place + 1]):
            failures[place] = _fall_back(agents, keys, place, notice, values, _make_refusal(values[place]))
    return values, failures


def _fall_back(
    agents: RuleAgents, keys: list[str], place: int, notice: Notice, values: list[Any], failure: Exception
) -> TurnEnd:
    """Put the agent's fallback in place of its number, if it has one; returns how its turn ends."""
    reason = str(failure.problem) if isinstance(failure, ActionRefusedError) else describe_failure(failure)
    try:
        number = agents.fall_back(keys[place], notice.event, failure)
    except BaseException as error:  # noqa: BLE001 - the turn edge, as above
        return TurnEnd(TurnStatus.ERROR, f"{reason}; its fallback failed: {describe_failure(error)}")
    if number is None:
        return TurnEnd(TurnStatus.ERROR, reason)
    if not all_numbers([number]):
        return TurnEnd(TurnStatus.ERROR, f"{reason}; its fallback failed: {_make_refusal(number).problem}")
    values[place] = number
    return TurnEnd(TurnStatus.FALLBACK, reason)


def _make_refusal(value: object) -> ActionRefusedError:
    return ActionRefusedError(REPORT, f"{show_value(value)} is no finite number of 64 bits")


def show_value(value: object) -> str:
    """A value for a reason: short, and whatever it is."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the turn edge: agents' code made it, and an int may be too long to be told
        return f"such a {type(value).__name__}"
    shown = text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"
    return shown.encode("utf-8", "replace").decode()


def _ask_rule(agents: RuleAgents, keys: list[str], notice: Notice) -> list[Any]:
    values: Any = agents.decide_many(keys, notice.event)
    numbers = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(numbers) != len(keys):
        raise ValueError(f"{len(numbers)} numbers for {len(keys)} agents")
    return numbers

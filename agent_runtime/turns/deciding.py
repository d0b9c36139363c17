"""What rule agents decide, checked: numbers, and how the turns ended of those who have none."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from ecumene.client import EcumeneError
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import judge_failure
from agent_runtime.agents.agent import RuleAgents
from agent_runtime.model.actions import REPORT
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.notices import Notice
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.ends import NOTHING_ASKED, describe_failure
from agent_runtime.turns.ledger import TurnEnd

logger = logging.getLogger("ecumene.runtime")

Failures = dict[int, TurnEnd]
"""How turns without a number ended, by the agent's place."""


async def decide(desk: Desk, agents: RuleAgents, keys: list[str], notice: Notice) -> tuple[list[Any], Failures]:
    """A number for each agent, or the reason why it has none."""
    if notice.ask is None:
        return fail_all(keys, NOTHING_ASKED)
    try:
        await desk.places.find(REPORT, notice.ask.path)
    except ActionRefusedError as error:
        return fail_all(keys, TurnEnd(TurnStatus.ERROR, error.problem))
    except EcumeneError as error:
        return fail_all(keys, TurnEnd(*judge_failure(error)))
    try:
        values = _ask_rule(agents, keys, notice)
    except Exception as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
        logger.warning("group %s: decide_many failed, asking each agent alone: %r", desk.group.name, error)
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
    """Whether all values are finite numbers, of the kinds that a report of numbers may have."""
    return set(map(type, values)) <= {float, int} and all(map(math.isfinite, values))


def fail_all(keys: list[str], end: TurnEnd) -> tuple[list[Any], Failures]:
    """No number for anyone."""
    return [None] * len(keys), dict.fromkeys(range(len(keys)), end)


def _decide_each(agents: RuleAgents, keys: list[str], notice: Notice) -> tuple[list[Any], Failures]:
    values: list[Any] = [None] * len(keys)
    failures: Failures = {}
    for place, key in enumerate(keys):
        try:
            values[place] = _ask_rule(agents, [key], notice)[0]
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            failures[place] = _fall_back(agents, keys, place, notice, values, error)
            continue
        if not all_numbers(values[place : place + 1]):
            failures[place] = _fall_back(agents, keys, place, notice, values, _make_refusal(values[place]))
    return values, failures


def _fall_back(
    agents: RuleAgents, keys: list[str], place: int, notice: Notice, values: list[Any], failure: Exception
) -> TurnEnd:
    """Put the agent's fallback in place of its number, if it has one; returns how its turn ends."""
    reason = failure.problem if isinstance(failure, ActionRefusedError) else describe_failure(failure)
    try:
        number = agents.fall_back(keys[place], notice.event, failure)
    except Exception as error:  # noqa: BLE001 - the turn edge, as above
        return TurnEnd(TurnStatus.ERROR, f"{reason}; its fallback failed: {describe_failure(error)}")
    if number is None:
        return TurnEnd(TurnStatus.ERROR, reason)
    if not all_numbers([number]):
        return TurnEnd(TurnStatus.ERROR, f"{reason}; its fallback failed: {_make_refusal(number).problem}")
    values[place] = number
    return TurnEnd(TurnStatus.FALLBACK, reason)


def _make_refusal(value: object) -> ActionRefusedError:
    return ActionRefusedError(REPORT, f"{value!r} is no finite number"[:120])


def _ask_rule(agents: RuleAgents, keys: list[str], notice: Notice) -> list[Any]:
    values: Any = agents.decide_many(keys, notice.event)
    numbers = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(numbers) != len(keys):
        raise ValueError(f"{len(numbers)} numbers for {len(keys)} agents")
    return numbers

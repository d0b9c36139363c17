"""Turns that no block carries: all their effects as one transaction, or as an operation with its companions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from ecumene.client import EcumeneError, FencedError, GateClosedError, Json, Transacted, Transaction, World
from ecumene.client.transaction import Writes

from agent_runtime.actions.settlement import read_answer
from agent_runtime.model.actions import Action, Outcome, Remembered

logger = logging.getLogger("ecumene.runtime")


class TurnOps:
    """Sends them for one part, each at once; returns what became of it, failures too."""

    def __init__(self, world: World, actor: str, lose: Callable[[FencedError], Awaitable[NoReturn]]) -> None:
        """`lose`: the part is somebody else's."""
        self._world = world
        self._actor = actor
        self._lose = lose

    async def transact(
        self, producer: str, seq: int, actions: Sequence[Action], cause: str, remembered: Sequence[Remembered]
    ) -> Outcome:
        """Writes alone, behind their gates; where one of those has closed, what is remembered is kept all the same."""
        transaction = self._world.transaction()
        if not remembered:
            _add_actions(transaction, actions)
        else:
            _require_gates(transaction, actions)
            _add_actions(transaction, [replace(action, gate_generation=0) for action in actions])
        for one in remembered:
            transaction.set(one.path, one.key, one.value)
            if any(action.gate_generation for action in actions):
                transaction.otherwise.set(one.path, one.key, one.if_late)
        try:
            done: Transacted = await transaction.commit(producer=producer, seq=seq, actor=self._actor, cause=cause)
        except FencedError as error:
            await self._lose(error)
        except EcumeneError as error:
            return Outcome(error=error)
        if done.otherwise:
            return Outcome(None, done.duplicate, GateClosedError("a gate of the turn's actions has closed"))
        return read_answer(done)

    async def invoke(
        self, producer: str, seq: int, actions: Sequence[Action], cause: str, remembered: Sequence[Remembered]
    ) -> Outcome:
        """One operation, and the writes beside it."""
        companions = self._world.writes()
        _add_actions(companions, [action for action in actions if action.change != "invoke"])
        for one in remembered:
            companions.set(one.path, one.key, one.value)
        (asked,) = (action for action in actions if action.change == "invoke")
        arguments: dict[str, Json] = asked.value  # type: ignore[assignment]
        try:
            done = await self._world.environment(asked.path).run(
                asked.key, arguments, companions=companions, producer=producer, seq=seq, actor=self._actor, cause=cause
            )
        except FencedError as error:
            await self._lose(error)
        except GateClosedError as error:
            # An operation has no else branch, so that nothing of the turn was kept.
            for one in remembered:
                await self._keep_late(one, cause)
            return Outcome(error=error)
        except EcumeneError as error:
            return Outcome(error=error)
        return read_answer(done)

    async def _keep_late(self, remembered: Remembered, cause: str) -> None:
        try:
            place = self._world.environment(remembered.path)
            await place.set(remembered.key, remembered.if_late, actor=self._actor, cause=cause)
        except FencedError as error:
            await self._lose(error)
        except EcumeneError as error:
            logger.warning("what %s remembers of a late turn was not kept: %s", remembered.key, error)


def _require_gates(transaction: Transaction, actions: Sequence[Action]) -> None:
    """The gates of a turn's writes as conditions of the transaction as a whole, which then has its else branch."""
    for action in actions:
        if action.gate_generation:
            transaction.require(action.path, gate_generation=action.gate_generation)


def _add_actions(writes: Writes, actions: Sequence[Action]) -> None:
    for action in actions:
        path, key, value, generation = action.path, action.key, action.value, action.gate_generation
        if action.change == "append":
            writes.append(path, key, value, gate_generation=generation)
        elif action.change == "increment":
            amount: int | float = value  # type: ignore[assignment]
            writes.increment(path, key, amount, gate_generation=generation)
        elif action.change == "merge":
            patch: dict[str, Json] = value  # type: ignore[assignment]
            writes.merge(path, key, patch, gate_generation=generation)
        elif action.change == "delete":
            writes.delete(path, key, gate_generation=generation)
        elif action.change == "move":
            position: list[float] | None = value  # type: ignore[assignment]
            writes.move(path, key, position, gate_generation=generation)
        else:
            writes.set(path, key, value, gate_generation=generation)

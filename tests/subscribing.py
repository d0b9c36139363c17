"""Ops on subscriptions, and consumers of them, on the stand of tests/engine.py."""

from __future__ import annotations

import asyncio
from typing import Any

from env_server.model.frames import Outcome
from env_server.model.operations import Acknowledge, Code, Transact, Write
from env_server.model.subscriptions import (
    Assignment,
    CreateSubscription,
    DeleteSubscription,
    SeekSubscription,
    SubscriptionState,
)
from env_server.model.watching import Delivery, Filter
from env_server.subscriptions.consumer import Consumer
from tests.engine import Op, Stand


def subscribe(
    name: str = "s", *, partitions: int = 1, ack_timeout_ms: int = 30_000, max_lag: int = 10**6, **asked: Any
) -> Op:
    """An op that creates a subscription; what is no field of one is a field of its filter."""
    own = {field: asked.pop(field) for field in ("from_revision", "group", "if_absent") if field in asked}
    spec = CreateSubscription(name, Filter(**asked), partitions, ack_timeout_ms, max_lag, **own)
    return Op("/", "", Code.CREATE_SUBSCRIPTION, spec)


def seek(name: str = "s", from_revision: int = 0) -> Op:
    """An op that sets a subscription's cursors."""
    return Op("/", "", Code.SEEK_SUBSCRIPTION, SeekSubscription(name, from_revision))


def unsubscribe(name: str = "s") -> Op:
    """An op that deletes a subscription."""
    return Op("/", "", Code.DELETE_SUBSCRIPTION, DeleteSubscription(name))


def ack(term: int, revision: int, name: str = "s") -> Op:
    """An op that acknowledges."""
    return Op("/", "", Code.ACKNOWLEDGE, Acknowledge(name, term, revision))


def ack_with(term: int, revision: int, *writes: Op, name: str = "s") -> Op:
    """A transaction that acknowledges after writes."""
    parts = [Write(op.path, op.key, Code(op.code), op.argument, op.preconditions) for op in writes]
    parts.append(Write("", "", Code.ACKNOWLEDGE, Acknowledge(name, term, revision)))
    return Op("/", "", Code.TRANSACT, Transact(writes=tuple(parts)))


def look(stand: Stand, name: str = "s") -> SubscriptionState:
    """The subscription as it stands."""
    return stand.world.subscriptions.find(name)


class Taker:
    """A consumer and what it was given. Nothing here waits: the stand's clock moves only when it is told to."""

    def __init__(self, stand: Stand, name: str = "c", subscription: str = "s", outstanding_max: int = 0) -> None:
        self.stand = stand
        self.subscription = subscription
        self.assignments: list[Assignment] = []
        self.events: list[tuple[int, str, str]] = []
        """Revision, path, key, under the last assignment."""
        self.through = 0
        self.consumer: Consumer = stand.world.subscriptions.attach(subscription, name, outstanding_max)

    @property
    def term(self) -> int:
        """The current one."""
        return self.assignments[-1].term

    @property
    def keys(self) -> list[str]:
        """Of the events."""
        return [key for _, _, key in self.events]

    async def take(self) -> list[Assignment | Delivery]:
        """All steps that are at hand.

        Raises:
            WorldError: it has ended.
        """
        self.stand.clock.settle()
        steps: list[Assignment | Delivery] = []
        while (step := await self._take_one()) is not None:
            steps.append(step)
            if isinstance(step, Assignment):
                self.assignments.append(step)
                self.events, self.through = [], step.cursor
            else:
                self._note(step)
        return steps

    def acknowledge(self, revision: int = 0) -> Outcome:
        """Acknowledges up to a revision, or all that was given."""
        return self.stand.do(ack(self.term, revision or self.through, self.subscription)).outcome()

    def leave(self) -> None:
        """Its stream has ended."""
        self.stand.world.subscriptions.detach(self.subscription, self.consumer)

    async def _take_one(self) -> Assignment | Delivery | None:
        step = asyncio.ensure_future(self.consumer.next())
        for _ in range(50):  # loop steps, in which reads of the log come as well
            await asyncio.sleep(0)
            if step.done():
                return step.result()
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        return None

    def _note(self, step: Delivery) -> None:
        changes = step.changes
        assert step.through_revision >= self.through
        if changes is not None:
            for row in range(len(changes)) if step.rows is None else step.rows:
                assert self.through < changes.revisions[row] <= step.through_revision
                place = changes.places[changes.path[row]]
                self.events.append((changes.revisions[row], place.path, changes.keys[row]))
        self.through = step.through_revision

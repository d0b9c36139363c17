"""Outcomes into the world: each written once, with the effects of its call, or not at all."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import logging
from collections.abc import Callable
from typing import Any

from ecumene.client import (
    AbortedError,
    AlreadyExistsError,
    EcumeneError,
    EnvironmentNotFoundError,
    NotFoundError,
    OutOfRangeError,
    PreconditionFailedError,
    World,
    Writes,
    WrongStateError,
    actions,
)
from ecumene.client.op_calls import OpCalls
from ecumene.workflows.background import Background
from ecumene.workflows.errors import Failure, ResultLostError
from ecumene.workflows.limits import INLINE_BYTES_MAX
from ecumene.workflows.messages import CALLS, Message, inbox_path, outcomes_path, write_failure, write_large

logger = logging.getLogger("ecumene.workflows")

Then = Callable[[Exception | None], None]
RESENT_SHIFT, NUMBER_SHIFT = 14, 28
"""A call's number for idempotency: its own, then how often it was sent again, then how often it was run there.

Either is RETRY_MAX at most, and CALL_NUMBER_MAX leaves room for both in 63 bits.
"""


class Committing:
    """Writes outcomes on behalf of one host. `inbox_revision`: at which its inbox was made; it fences transactions."""

    def __init__(
        self,
        world: World,
        place: str,
        inbox_revision: int,
        on_durable: Callable[[Message, str], None],
        on_gone: Callable[[Message], None],
        on_failure: Callable[[EcumeneError], None],
    ) -> None:
        """`on_failure`: an outcome could not be written in any form. Whoever waits for it learns that from the host's
        end alone."""
        self._world = world
        self._inbox = inbox_path(place)
        self._inbox_revision = inbox_revision
        self._on_durable = on_durable
        self._on_gone = on_gone
        self._on_failure = on_failure
        self._places: dict[str, OpCalls] = {}
        self._tasks = Background(lambda error: on_failure(EcumeneError(f"a defect ended a commit: {error!r}")))

    def __len__(self) -> int:
        return len(self._tasks)

    def commit(self, message: Message, text: str, effects: Writes | None, then: Then) -> None:
        """See StagePort.commit."""
        if effects is not None or len(text) > INLINE_BYTES_MAX:
            work = self._commit_transaction(message, text, effects, then)
            self._tasks.begin(work, f"commit of call {message.number}")
            return
        self._write(message, text, then, is_last=False)

    def forget(self, flow: str, caller: str) -> None:
        """A caller has ended."""
        self._places.pop(outcomes_path(flow, caller), None)

    async def close(self) -> None:
        """Transactions under way are left to their end by the session's own close."""
        await self._tasks.close()

    def _write(self, message: Message, text: str, then: Then, *, is_last: bool) -> None:
        """Write an outcome unless there is one; `is_last`: there is no shorter form of it."""
        path = outcomes_path(message.flow, message.caller)
        place = self._places.get(path)
        if place is None:
            place = self._places[path] = OpCalls(self._world.session, path, None, self._world.stamp)
        try:
            sent = place.update(f"r{message.number}", actions.set_value(text), {"expect_version": 0})
        except EcumeneError as error:
            self._tell(message, text, then, error, is_last=is_last)
            return
        sent.add_done_callback(functools.partial(self._note_sent, message, text, then, is_last))

    def _note_sent(self, message: Message, text: str, then: Then, is_last: bool, sent: asyncio.Future[Any]) -> None:
        self._tell(message, text, then, None if sent.cancelled() else sent.exception(), is_last=is_last)

    def _tell(
        self, message: Message, text: str, then: Then, error: BaseException | None, *, is_last: bool = False
    ) -> None:
        if error is None:
            self._on_durable(message, text)
        elif isinstance(error, EnvironmentNotFoundError):
            self._on_gone(message)
        elif isinstance(error, PreconditionFailedError | AlreadyExistsError):
            pass  # another outcome counts, as after a retry
        elif is_last:
            problem = f"the outcome of {message}, call {message.number}, cannot be written: {error}"
            logger.error("%s", problem)
            self._on_failure(error if isinstance(error, EcumeneError) else EcumeneError(problem))
        else:
            logger.warning("the outcome of %s, call %d, was not taken: %s", message, message.number, error)
            lost = Failure(ResultLostError.code, f"the result of {message} could not be written: {error}")
            self._write(message, write_failure(lost), then, is_last=True)
            return
        then(None)

    async def _commit_transaction(self, message: Message, text: str, effects: Writes | None, then: Then) -> None:
        path, key = outcomes_path(message.flow, message.caller), f"r{message.number}"
        transaction = self._world.transaction()
        transaction.require(self._inbox, CALLS, created_revision=self._inbox_revision)
        inline = text
        if len(text) > INLINE_BYTES_MAX:
            inline = write_large(len(text))
            transaction.create(path, f"v{message.number}", text)
        transaction.create(path, key, inline)
        identity: dict[str, Any] = {"actor": message.actor}
        if effects is not None:
            transaction.messages.extend(effects.messages)
            identity |= {"producer": name_producer(message), "seq": number_attempt(message)}
        try:
            done = await transaction.commit(**identity)
        except Exception as error:  # noqa: BLE001 - the edge: effects are whatever a method has staged
            if await self._is_decided(path, key, error):
                logger.info("another outcome of %s, call %d, counts: %s", message, message.number, error)
                then(None)
            elif effects is None:
                self._tell(message, text, then, error)
            else:
                then(error)
            return
        if done.duplicate:
            then(None)  # what it came to the first time is there already
        else:
            self._tell(message, inline, then, None)

    async def _is_decided(self, path: str, key: str, error: Exception) -> bool:
        """Whether a transaction failed because there is an outcome already, nobody to take one, or no such host.

        What cannot be known is not decided: a failure that is written then counts only if nothing else is there.
        """
        if not isinstance(error, AbortedError | AlreadyExistsError | NotFoundError | OutOfRangeError | WrongStateError):
            return False
        outcome, inbox = self._world.environment(path), self._world.environment(self._inbox)
        try:
            if (await inbox.get(CALLS)).create_revision != self._inbox_revision:
                return True
            await outcome.get(key)
        except EnvironmentNotFoundError:
            return True
        except EcumeneError:
            return False
        return True


def name_producer(message: Message) -> str:
    """Under which name the effects of a call are sent: no agent has a slash in its id.

    One for each actor, lane and caller, so that its numbers rise: an actor that was made again elsewhere calls through
    another caller, which counts from 1.
    """
    if not message.lane:
        return f"{message.actor}/wf"
    digest = hashlib.blake2b(f"{message.caller}/{message.lane}".encode(), digest_size=8).digest()
    return f"{message.actor}/wf.{base64.b32encode(digest).decode().rstrip('=').lower()}"


def number_attempt(message: Message) -> int:
    """The number of one attempt at a call: above those of all attempts before it."""
    return (message.number << NUMBER_SHIFT) + (message.resent << RESENT_SHIFT) + message.attempt

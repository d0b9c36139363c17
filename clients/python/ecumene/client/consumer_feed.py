"""A consumer between the server, which delivers, and its reader: over broken connections, and within its deadline."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
from env_api.v1 import events_pb2, subscription_service_pb2, subscription_service_pb2_grpc

from ecumene.client import error_table
from ecumene.client.backoff import Backoff
from ecumene.client.errors import (
    ClosedError,
    ConnectionFailedError,
    EcumeneError,
    UnavailableError,
    forget_frames,
)
from ecumene.client.stream import raise_if_cancelled

if TYPE_CHECKING:
    from ecumene.client.session import Session

logger = logging.getLogger("ecumene.client")

EXTENDS_A_TIMEOUT = 3


class ConsumerFeed:
    """Frames that were delivered and not read yet, each with its term. Lives in one event loop.

    Memory is bounded by what the server delivers without an acknowledgement.
    """

    def __init__(self, session: Session, subscription: str, consumer: str, outstanding_max: int) -> None:
        self._session = session
        self._stub: Any = subscription_service_pb2_grpc.SubscriptionServiceStub(session.calls.channel)
        self._name = subscription
        self._request = subscription_service_pb2.ConsumeRequest(
            world=session.world,
            name=subscription,
            consumer=consumer,
            outstanding_max=outstanding_max,
            history=session.history,
        )
        self.history = session.history
        self.partitions: tuple[int, ...] = ()
        self._term = 0
        self._frames: deque[tuple[events_pb2.EventFrame, int]] = deque()
        self._arrival = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: EcumeneError | None = None
        self._is_ended = False
        self._progress_at = 0.0

    def start(self) -> None:
        """Attach, and go on until the end."""
        self._session.consumers.add(self)
        loop = asyncio.get_running_loop()
        self._progress_at = loop.time()
        self._task = loop.create_task(self._run(), name=f"ecumene consumer {self._name}")

    async def next_frame(self) -> tuple[events_pb2.EventFrame, int] | None:
        """The next frame with events, and its term; None after `close`.

        Raises:
            EcumeneError: the consumer ended; the class says why.
        """
        while not self._frames:
            if self._is_ended:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                return None
            self._arrival.clear()
            await self._arrival.wait()
        return self._frames.popleft()

    async def close(self) -> None:
        """Detach; a reader sees the end."""
        self.end(None)
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def end(self, failure: EcumeneError | None) -> None:
        """No more frames."""
        if not self._is_ended:
            self._is_ended = True
            self._failure = failure
            self._frames.clear()
            self._arrival.set()
            self._session.consumers.discard(self)
        if self._task is not None and failure is None:
            self._task.cancel()

    async def _run(self) -> None:
        failure: EcumeneError = ClosedError("the consumer ended by a defect of the client")
        try:
            failure = await self._stay_attached()
        finally:
            self.end(failure)

    async def _stay_attached(self) -> EcumeneError:
        settings = self._session.settings
        backoff = Backoff(settings.backoff_first_ms, settings.backoff_ms_max, self._session.chance)
        loop = asyncio.get_running_loop()
        while True:
            term_before = self._term
            ended = await self._attach()
            raise_if_cancelled()
            forget_frames(ended)
            if not isinstance(ended, UnavailableError):
                return ended
            if self._term != term_before:
                backoff.reset()
            delay_s = backoff.next_delay_s(ended.retry_delay_s)
            if loop.time() + delay_s > self._progress_at + settings.reconnect_timeout_s:
                return ConnectionFailedError(self._session.address, settings.reconnect_timeout_s, ended)
            logger.info("consumer of %s: %s; next attempt in %.2f s", self._name, ended, delay_s)
            await asyncio.sleep(delay_s)

    async def _attach(self) -> EcumeneError:
        """Consume on one stream until it ends; returns why."""
        extender: asyncio.Task[None] | None = None
        call: Any = None
        try:
            ack_timeout_s = await self._ask_ack_timeout()
            call = self._stub.Consume(self._request)
            async for response in call:
                self._progress_at = asyncio.get_running_loop().time()
                if response.WhichOneof("response") == "assignment":
                    self._take_assignment(response)
                    if extender is None:
                        name = f"ecumene extends {self._name}"
                        extender = asyncio.create_task(self._extend(ack_timeout_s / EXTENDS_A_TIMEOUT), name=name)
                elif response.events.count:
                    self._frames.append((response.events, self._term))
                    self._arrival.set()
            return UnavailableError("the server ended the stream")
        except grpc.aio.AioRpcError as error:
            return error_table.from_rpc_error(error)
        except EcumeneError as error:
            return error
        finally:
            if call is not None:
                call.cancel()
            if extender is not None:
                extender.cancel()
                await asyncio.gather(extender, return_exceptions=True)

    def _take_assignment(self, response: subscription_service_pb2.ConsumeResponse) -> None:
        # What was not read yet comes again, to whoever has it now.
        self._frames.clear()
        self.history = response.header.history
        assignment = response.assignment
        self._term = assignment.term
        self.partitions = tuple(assignment.partitions)

    async def _ask_ack_timeout(self) -> float:
        request = subscription_service_pb2.GetSubscriptionRequest(world=self._request.world, name=self._name)
        answer = await self._session.calls.call(self._stub.GetSubscription, request, repeatable=True)
        return float(answer.subscription.ack_timeout_ms) / 1000

    async def _extend(self, interval_s: float) -> None:
        """Say that what was delivered is still wanted; why it may not be is for the stream to tell."""
        while True:
            await asyncio.sleep(interval_s)
            request = subscription_service_pb2.ExtendDeadlineRequest(
                world=self._request.world, name=self._name, term=self._term
            )
            try:
                await self._session.calls.call(self._stub.ExtendDeadline, request, repeatable=True)
            except EcumeneError as error:
                logger.info("consumer of %s: its deadline was not extended: %s", self._name, error)


def abandon(loop: asyncio.AbstractEventLoop, feed: ConsumerFeed) -> None:
    """End the feed of a reader that was dropped; the collector may run in any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(feed.end, None)

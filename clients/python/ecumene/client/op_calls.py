"""Single ops of one environment: issued now, answered when awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from env_api.v1 import operations_pb2, queries_pb2, session_pb2

from ecumene.client.clocks import refusing
from ecumene.client.errors import DeadlineExceededError, ErrorDetails, Executed
from ecumene.client.model import Outcome
from ecumene.client.stamps import Stamp
from ecumene.client.values import check_key

if TYPE_CHECKING:
    from ecumene.client.session import Session

Kind = TypeVar("Kind", bound=Outcome)
_TIMEOUT_S_MAX = 1e9
"""Beyond it, also for ever, the server need not know how long somebody waits."""


class OpCalls:
    """Puts ops at a path into the session. What issues is not async, so that ops issued together stay together."""

    def __init__(self, session: Session, path: str, timeout_s: float | None, stamp: Stamp) -> None:
        self._session = session
        self._stamp = stamp
        self._path = path
        self._timeout_s = timeout_s
        self._deadline_ms = 0
        if timeout_s is not None:
            with refusing("timeout_s"):
                self._deadline_ms = max(1, int(1000 * min(timeout_s, _TIMEOUT_S_MAX)))

    def write(self, op: session_pb2.Op, options: Mapping[str, Any]) -> asyncio.Future[Outcome]:
        """Issue a write."""
        return self._session.issue(self._path, op, self._stamp.put_on(options), self._deadline_ms)

    def update(self, key: str, update: operations_pb2.Update, options: Mapping[str, Any]) -> asyncio.Future[Outcome]:
        """Issue an update of an entry."""
        return self.write(session_pb2.Op(key=check_key(key), update=update), options)

    def read(self, key: str, query: queries_pb2.Query) -> asyncio.Future[Outcome]:
        """Issue a read of an entry."""
        return self.write(session_pb2.Op(key=check_key(key), query=query), {})

    def update_whole(self, update: operations_pb2.Update, options: Mapping[str, Any]) -> asyncio.Future[Outcome]:
        """Issue an update of the environment."""
        return self.write(session_pb2.Op(update=update), options)

    def read_whole(self, query: queries_pb2.Query) -> asyncio.Future[Outcome]:
        """Issue a read of the environment."""
        return self.write(session_pb2.Op(query=query), {})

    async def answer(self, issued: asyncio.Future[Outcome], kind: type[Kind]) -> Kind:
        """Wait for the outcome of an op that was issued.

        Raises:
            DeadlineExceededError: it did not come within the handle's timeout; the op may have had its effect.
            EcumeneError: the op failed.
        """
        outcome = await issued if self._timeout_s is None else await self._wait(issued)
        if not isinstance(outcome, kind):
            raise TypeError(f"the server answered {type(outcome).__name__} instead of {kind.__name__}")
        return outcome

    async def _wait(self, issued: asyncio.Future[Outcome]) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await issued
        except TimeoutError as error:
            details = ErrorDetails(
                message=f"no answer for {self._path} within {self._timeout_s} s",
                reason="DEADLINE",
                executed=Executed.UNKNOWN,
            )
            raise DeadlineExceededError(details) from error

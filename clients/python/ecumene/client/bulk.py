"""Many equal ops on entries of one environment, in as many frames as they need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ecumene.client.errors import EcumeneError
from ecumene.client.frame_result import FrameResult

FRAME_OPS = 1000
"""In one frame, if the server allows so many: larger ones gain nothing, and hold up what else the session does."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of many ops; each took effect, or failed, for itself."""

    ok_count: int
    failures: dict[str, EcumeneError]
    """Key → why its op failed."""
    revision: int
    """The world's revision when the last of them was answered."""

    def raise_failure(self) -> BulkResult:
        """Raise the first failure, if there is one; otherwise return this result."""
        for error in self.failures.values():
            raise error
        return self


Submit = Callable[[slice], Awaitable[asyncio.Future[FrameResult]]]
"""Queues one frame with a part of the ops."""


async def send_in_frames(keys: Sequence[str], frame_ops_max: int, submit: Submit) -> BulkResult:
    """Send ops in frames, in order, several under way at a time, and wait for all.

    Raises:
        EcumeneError: a frame cannot be sent; those before it were.
    """
    size = min(FRAME_OPS, frame_ops_max)
    sent = [(start, await submit(slice(start, start + size))) for start in range(0, len(keys), size)]
    ok_count, revision = 0, 0
    failures: dict[str, EcumeneError] = {}
    for start, future in sent:
        result = await future
        ok_count, revision = ok_count + result.ok_count, result.revision
        failures.update({keys[start + index]: error for index, error in result.failures})
    return BulkResult(ok_count, failures, revision)

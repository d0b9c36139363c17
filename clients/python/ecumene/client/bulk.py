"""Many equal ops on entries of one environment, in as many frames as they need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ecumene.client.errors import EcumeneError
from ecumene.client.frame_result import FrameResult
from ecumene.client.reasons import LimitExceededError

FRAME_OPS = 1000
"""In one frame, if the server allows so many: larger ones gain nothing, and hold up what else the session does."""


@dataclass(frozen=True, slots=True)
class BulkFailure:
    """One op of many that failed."""

    index: int
    """Its place among those that were given; a key may be given more than once."""
    key: str
    error: EcumeneError


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of many ops; each took effect, or failed, for itself."""

    ok_count: int
    failures: tuple[BulkFailure, ...]
    """In the order in which the ops were given."""
    revision: int
    """The world's revision when the last of them was answered."""

    def raise_failure(self) -> BulkResult:
        """Raise the first failure, if there is one; otherwise return this result."""
        for failure in self.failures:
            raise failure.error
        return self


Submit = Callable[[slice], Awaitable[asyncio.Future[FrameResult]]]
"""Queues one frame with a part of the ops."""


async def send_in_frames(keys: Sequence[str], frame_ops_max: int, submit: Submit) -> BulkResult:
    """Send ops in frames, in order, several under way at a time, and wait for all.

    A frame that has too many bytes is cut in two; an op that has too many alone fails alone.

    Raises:
        EcumeneError: the first frame cannot be sent, so that nothing was. Where a later one cannot, or the session ends
            before an answer, that is the failure of each of its ops.
    """
    size_max = min(FRAME_OPS, frame_ops_max)
    sent: list[tuple[int, int, asyncio.Future[FrameResult] | EcumeneError]] = []
    start, size = 0, size_max
    while start < len(keys):
        end = min(start + size, len(keys))
        try:
            sent.append((start, end, await submit(slice(start, end))))
        except EcumeneError as error:
            if isinstance(error, LimitExceededError) and end - start > 1:
                size = (end - start) // 2
                continue
            if not sent and not isinstance(error, LimitExceededError):
                raise
            sent.append((start, end, error))
        start, size = end, min(2 * size, size_max)
    ok_count, revision = 0, 0
    failures: list[BulkFailure] = []
    for start, end, under_way in sent:
        try:
            if isinstance(under_way, EcumeneError):
                raise under_way
            result = await under_way
        except EcumeneError as error:
            failures += [BulkFailure(start + row, key, error) for row, key in enumerate(keys[start:end])]
            continue
        ok_count, revision = ok_count + result.ok_count, max(revision, result.revision)
        failures += [BulkFailure(start + row, keys[start + row], error) for row, error in result.failures]
    return BulkResult(ok_count, tuple(failures), revision)

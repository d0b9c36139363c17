"""Many ops go in frames, in order; each failure is told by its place and its key."""

from __future__ import annotations

import asyncio

import ecumene
import pytest
from ecumene.client.bulk import FRAME_OPS, send_in_frames
from ecumene.client.frame_result import FrameResult
from env_api.v1 import errors_pb2, operations_pb2, session_pb2


class Sender:
    """Answers frames in which some ops fail."""

    def __init__(self, keys: list[str], failing: set[str]) -> None:
        self.keys = keys
        self.failing = failing
        self.parts: list[slice] = []

    async def submit(self, part: slice) -> asyncio.Future[FrameResult]:
        """One frame."""
        self.parts.append(part)
        keys = self.keys[part]
        error = errors_pb2.Error(code=5, reason=errors_pb2.ERROR_REASON_ENTRY_NOT_FOUND)
        outcomes = [
            operations_pb2.OpOutcome(index=index, error=error) for index, key in enumerate(keys) if key in self.failing
        ]
        answer = session_pb2.FrameAnswer(
            seq=len(self.parts), count=len(keys), revision=10 * len(self.parts), outcomes=outcomes
        )
        future: asyncio.Future[FrameResult] = asyncio.get_running_loop().create_future()
        future.set_result(FrameResult([answer]))
        return future


async def test_failures_are_told_by_place_and_key_over_all_frames() -> None:
    keys = [f"k{number}" for number in range(2 * FRAME_OPS + 1)]
    sender = Sender(keys, {"k0", f"k{FRAME_OPS}", keys[-1]})
    result = await send_in_frames(keys, 4096, sender.submit)
    assert [(part.start, part.stop) for part in sender.parts] == [(0, 1000), (1000, 2000), (2000, 2001)]
    assert result.ok_count == len(keys) - 3
    assert [(failure.index, failure.key) for failure in result.failures] == [
        (0, "k0"),
        (FRAME_OPS, f"k{FRAME_OPS}"),
        (2 * FRAME_OPS, keys[-1]),
    ]
    assert result.revision == 30
    with pytest.raises(ecumene.EntryNotFoundError):
        result.raise_failure()


async def test_a_server_that_allows_less_gets_smaller_frames() -> None:
    sender = Sender(["a", "b", "c"], set())
    result = await send_in_frames(sender.keys, 2, sender.submit)
    assert [(part.start, part.stop) for part in sender.parts] == [(0, 2), (2, 3)]
    assert result.raise_failure() is result


async def test_nothing_to_do_sends_nothing() -> None:
    sender = Sender([], set())
    assert await send_in_frames([], 4096, sender.submit) == ecumene.BulkResult(0, (), 0)
    assert sender.parts == []


async def test_each_failure_of_a_key_that_is_given_more_than_once_is_told() -> None:
    sender = Sender(["a", "b", "a", "a"], {"a"})
    result = await send_in_frames(sender.keys, 2, sender.submit)
    assert [(failure.index, failure.key) for failure in result.failures] == [(0, "a"), (2, "a"), (3, "a")]
    assert result.ok_count + len(result.failures) == len(sender.keys)


@pytest.mark.parametrize("ends", ["before it is sent", "before it is answered"])
async def test_what_became_of_the_rest_is_told_where_a_later_frame_fails(ends: str) -> None:
    sender = Sender(["a", "b", "c", "d", "e"], {"b"})
    lost = ecumene.ClosedError()

    async def submit(part: slice) -> asyncio.Future[FrameResult]:
        if part.start != 2:
            return await sender.submit(part)
        if ends == "before it is sent":
            raise lost
        future: asyncio.Future[FrameResult] = asyncio.get_running_loop().create_future()
        future.set_exception(lost)
        return future

    result = await send_in_frames(sender.keys, 2, submit)
    assert [(failure.index, failure.key) for failure in result.failures] == [(1, "b"), (2, "c"), (3, "d")]
    assert [failure.error for failure in result.failures[1:]] == [lost, lost]
    assert (result.ok_count, result.revision) == (2, 20)


async def test_a_first_frame_that_cannot_be_sent_is_raised() -> None:
    async def submit(part: slice) -> asyncio.Future[FrameResult]:
        raise ecumene.ClosedError

    with pytest.raises(ecumene.ClosedError):
        await send_in_frames(["a"], 2, submit)


async def test_a_frame_with_too_many_bytes_is_cut_and_an_op_that_has_too_many_alone_fails_alone() -> None:
    sizes = [1] * 5 + [9] + [3] * 4 + [1] * 90
    sender = Sender([f"k{number}" for number in range(len(sizes))], {"k7"})

    async def submit(part: slice) -> asyncio.Future[FrameResult]:
        if (size := sum(sizes[part])) > 8:
            raise ecumene.LimitExceededError.of("frame_bytes_max", 8, size)
        return await sender.submit(part)

    result = await send_in_frames(sender.keys, 4096, submit)
    assert [(failure.index, type(failure.error)) for failure in result.failures] == [
        (5, ecumene.LimitExceededError),
        (7, ecumene.EntryNotFoundError),
    ]
    assert result.ok_count == len(sizes) - 2
    told = [index for part in sender.parts for index in range(part.start, part.stop)]
    assert told == [index for index in range(len(sizes)) if index != 5], "each once, in order"
    assert len(sender.parts) < 30, "frames grow again behind what was large"

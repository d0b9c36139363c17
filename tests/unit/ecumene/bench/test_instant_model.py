"""The endpoint that answers at once answers every request, however its bytes arrive."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from ecumene.bench.instant_model import Counter, InstantConnection, make_reply

BODY = b'{"model": "m"}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


class Written:
    """Where a connection writes."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.replies.append(data)

    def abort(self) -> None:
        self.is_aborted = True


def connect() -> tuple[InstantConnection, Written, Counter]:
    written, counter = Written(), Counter()
    connection = InstantConnection(make_reply(), counter)
    connection.connection_made(cast(asyncio.Transport, written))
    return connection, written, counter


@pytest.mark.parametrize("size", [1, 7, len(REQUEST), 2 * len(REQUEST) + 3, 10_000])
def test_each_request_gets_one_reply_however_it_is_cut(size: int) -> None:
    connection, written, counter = connect()
    told = REQUEST * 5
    for start in range(0, len(told), size):
        connection.data_received(told[start : start + size])
    assert written.replies == [make_reply()] * 5
    assert counter.answered == 5


def test_a_request_without_a_length_is_no_question() -> None:
    connection, written, counter = connect()
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    assert written.is_aborted and not written.replies and not counter.answered


def test_the_reply_is_a_completion_with_usage() -> None:
    head, _, body = make_reply().partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(body) in head
    reply: dict[str, Any] = json.loads(body)
    assert json.loads(reply["choices"][0]["message"]["content"]).keys() == {"reason", "boats"}
    assert reply["usage"]["completion_tokens"] > 0

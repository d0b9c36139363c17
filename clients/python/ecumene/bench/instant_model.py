"""A model endpoint that answers at once, always the same: what is measured against it is the client alone.

`python -m ecumene.bench.instant_model`: says its address; for each line that it is told it prints how many requests it
has answered.
"""

from __future__ import annotations

import asyncio
import gc
import json
from typing import cast

from ecumene.bench.child import Parent, run_child, tell

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_ANSWER = {"reason": "Few went out yesterday, so fewer have to stay in the harbour tomorrow.", "boats": 31.5}
_COMPLETION = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "instant",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(_ANSWER)}}
    ],
    "usage": {"prompt_tokens": 170, "completion_tokens": 30, "total_tokens": 200},
}


def make_reply() -> bytes:
    """The whole reply to any request."""
    body = json.dumps(_COMPLETION).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Counter:
    """Requests that were answered, over all connections."""

    def __init__(self) -> None:
        self.answered = 0


class InstantConnection(asyncio.Protocol):
    """One connection: reads requests to their end, and answers each."""

    def __init__(self, reply: bytes, counter: Counter) -> None:
        self._reply = reply
        self._counter = counter
        self._read = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        read = self._read + data if self._read else data
        while (head_end := read.find(_END_OF_HEAD)) >= 0:
            head = read[:head_end].lower()
            length_at = head.find(_LENGTH)
            if length_at < 0:
                self._transport.abort()  # no body is no question
                return
            length = int(head[length_at + len(_LENGTH) :].split(b"\r\n", 1)[0])
            end = head_end + len(_END_OF_HEAD) + length
            if len(read) < end:
                break
            read = read[end:]
            self._counter.answered += 1
            self._transport.write(self._reply)
        self._read = read


async def main() -> None:
    """Serve until the parent is gone."""
    gc.disable()
    reply, counter = make_reply(), Counter()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: InstantConnection(reply, counter), "127.0.0.1", 0, backlog=4096)
    host, port = server.sockets[0].getsockname()[:2]
    async with Parent() as parent:
        tell({"base_url": f"http://{host}:{port}/v1"})
        while await parent.wait_for_go():
            tell({"answered": counter.answered})
    server.close()


if __name__ == "__main__":
    run_child(main())

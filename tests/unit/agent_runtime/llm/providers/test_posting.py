"""Posts over bare connections: what servers may send, what breaks, and which connections are used again."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme
from yarl import URL

from agent_runtime.llm.providers.posting import JsonPoster, ResponseTooLargeError

BYTES_MAX = 100_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STARTS = ("POST /v1/chat?x=1 HTTP/1.1", "Host: ", "Content-Length: 7")


class ScriptedServer:
    """Replies to each request with the next of `replies`, in the pieces given; None closes without a word."""

    def __init__(self, replies: Sequence[Sequence[bytes] | None], *, closes: bool) -> None:
        self._replies = iter(replies)
        self._closes = closes
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(size))
                pieces = next(self._replies)
                if pieces is None:
                    return
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self.ended.set()


@asynccontextmanager
async def serve(
    *replies: Sequence[bytes] | None, closes: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[ScriptedServer, URL]]:
    scripted = ScriptedServer(replies, closes=closes)
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield scripted, URL(f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1/chat?x=1")
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def post_to(url: URL, *, connections_max: int = 4, timeout_s: float | None = None) -> AsyncIterator[JsonPoster]:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
    poster = JsonPoster(
        url, headers=headers, connections_max=connections_max, timeout_s=timeout_s, response_bytes_max=BYTES_MAX
    )
    try:
        yield poster
    finally:
        await poster.aclose()


async def test_a_request_has_its_head_once_and_its_body_whole() -> None:
    async with serve([OK], [OK]) as (server, url), post_to(url) as poster:
        for body in (b'{"a":1}', b'{"b":2}'):
            assert (await poster.post(body)).content == b"{}"
        for sent, body in zip(server.requests, (b'{"a":1}', b'{"b":2}'), strict=True):
            head, _, got = sent.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            assert got == body
            assert lines[0] == STARTS[0]
            assert "Content-Length: 7" in lines
            assert f"Host: 127.0.0.1:{url.port}" in lines
            assert "Authorization: Bearer k" in lines
            names = [line.split(":")[0].lower() for line in lines[1:]]
            assert len(set(names)) == len(names)
        assert server.connections == 1


STRAY = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nstray",
    b"garbage",
)


@pytest.mark.parametrize("stray", STRAY)
async def test_what_comes_unasked_on_an_idle_connection_answers_nobody(stray: bytes) -> None:
    told, let_go = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                asked = await reader.readexactly(2)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + asked)
                await let_go.wait()
                writer.write(stray)
                told.set()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with post_to(URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")) as poster:
        for number in range(3):
            told.clear()
            let_go.clear()
            asked = b"%02d" % number
            assert (await poster.post(asked)).content == asked
            let_go.set()
            await told.wait()
            await asyncio.sleep(0.02)  # until it has come here: nothing tells of that
    server.close()
    await server.wait_closed()


ZIPPED = gzip.compress(b'{"zipped": 1}')


@pytest.mark.parametrize(
    ("reply", "closes", "content"),
    [
        ([OK], False, b"{}"),
        ([OK[:20], OK[20:-1], OK[-1:]], False, b"{}"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], False, b"{}"),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK], False, b"{}"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"], False, b"{}"),
        ([b"HTTP/1.1 200 OK\r\n\r\n{", b"}"], True, b"{}"),
        ([b"HTTP/1.0 200 OK\r\n\r\n{}"], True, b"{}"),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(ZIPPED), ZIPPED],
            False,
            b'{"zipped": 1}',
        ),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], False, b""),
        ([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"], False, b""),
    ],
)
async def test_whatever_form_a_response_has_it_is_read_whole(
    reply: Sequence[bytes], closes: bool, content: bytes
) -> None:
    async with serve(reply, [OK], closes=closes) as (server, url), post_to(url) as poster:
        first = await poster.post(b"{}")
        assert (first.content, first.status) == (content, int(b"".join(reply).rsplit(b"HTTP/1.", 1)[1][2:5]))
        second = await poster.post(b"{}")
        assert second.content == (b"{}" if not closes else second.content)
        assert server.connections == (2 if closes else 1)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nBad Header\x00: 1\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"],
    ],
)
async def test_what_breaks_or_is_no_http_is_a_client_error_and_costs_its_connection(
    reply: Sequence[bytes] | None,
) -> None:
    async with serve(reply, closes=True) as (server, url), post_to(url, connections_max=1) as poster:
        with pytest.raises(aiohttp.ClientError):
            await poster.post(b"{}")
        # The only place is free again, by a new connection.
        with pytest.raises(aiohttp.ClientError):
            await poster.post(b"{}")
        assert server.connections == 2


async def test_words_after_a_response_belong_to_nobody() -> None:
    async with serve([OK + OK.replace(b"{}", b"[]")], [OK]) as (server, url), post_to(url) as poster:
        assert (await poster.post(b"{}")).content == b"{}"
        assert (await poster.post(b"{}")).content == b"{}"
        assert server.connections == 2


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    async with serve([OK], [OK], closes=True) as (server, url), post_to(url) as poster:
        for _ in range(2):
            await poster.post(b"{}")
            await server.ended.wait()
            server.ended.clear()
            for _ in range(5):  # what has arrived is looked at in one turn of the loop
                await asyncio.sleep(0)
        assert server.connections == 2


async def test_giving_up_closes_the_connection_and_frees_its_place() -> None:
    async with serve([b""], [OK]) as (server, url), post_to(url, connections_max=1) as poster:
        post = asyncio.create_task(poster.post(b"{}"), name="given-up")
        while not server.requests:  # noqa: ASYNC110  counts of the other side, which has no event for them
            await asyncio.sleep(0.001)
        post.cancel()
        with pytest.raises(asyncio.CancelledError):
            await post
        await server.ended.wait()
        assert (await poster.post(b"{}")).content == b"{}"


async def test_a_post_that_takes_too_long_ends() -> None:
    async with serve([b""]) as (server, url), post_to(url, timeout_s=0.05) as poster:
        with pytest.raises(TimeoutError):
            await poster.post(b"{}")
        await server.ended.wait()


@pytest.mark.parametrize("length", [b"Content-Length: %d\r\n" % (BYTES_MAX + 1), b""])
async def test_a_response_that_is_too_large_is_read_no_further(length: bytes) -> None:
    reply = [b"HTTP/1.1 200 OK\r\n" + length + b"\r\n", b"x" * (BYTES_MAX + 1)]
    async with serve(reply, closes=True) as (_, url), post_to(url) as poster:
        with pytest.raises(ResponseTooLargeError, match="200"):
            await poster.post(b"{}")


async def test_no_more_connections_than_allowed() -> None:
    async with serve(*[[OK]] * 20) as (server, url), post_to(url, connections_max=3) as poster:
        await asyncio.gather(*(poster.post(b"{}") for _ in range(20)))
        assert server.connections <= 3


@pytest.mark.parametrize("secret", ["a\r\nX: 1", "a\nb", "a\0b"])
async def test_a_header_cannot_add_others(secret: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        JsonPoster(
            URL("http://127.0.0.1:1/"), headers={"Authorization": secret}, connections_max=1, response_bytes_max=1
        )


def make_tls(directory: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and the file of who signed for it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return context, file


async def test_a_certificate_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    context, _ = make_tls(tmp_path)
    async with serve([OK], tls=context) as (server, url), post_to(url) as poster:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await poster.post(b'{"secret": 1}')
        assert server.requests == []


TRUSTING = """
import asyncio, sys
from yarl import URL
from agent_runtime.llm.providers.posting import JsonPoster

async def main():
    poster = JsonPoster(URL(sys.argv[1]), connections_max=1, response_bytes_max=100)
    for _ in range(2):
        print((await poster.post(b"{}")).content.decode())
    await poster.aclose()

asyncio.run(main())
"""


async def test_a_certificate_of_the_systems_authorities_is_trusted(tmp_path: Path) -> None:
    context, authority = make_tls(tmp_path)
    async with serve([OK], [OK], tls=context) as (server, url):
        # Authorities are read when aiohttp is imported.
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            TRUSTING,
            str(url),
            env={"SSL_CERT_FILE": str(authority), "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
        )
        printed, _ = await child.communicate()
        assert (child.returncode, printed.split()) == (0, [b"{}", b"{}"])
        assert server.connections == 1

"""What a caller learns of an exception, and what never leaves the server."""

import asyncio
import logging
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2

from env_server.model.errors import InvalidRequest, NotFound, Reason
from env_server.rpc.edge import draw_incident, guard, parse
from env_server.rpc.encode.errors import CODE_OF


class FakeContext:
    def __init__(self, *, done: bool = False) -> None:
        self.aborted: list[Any] = []
        self._done = done

    def done(self) -> bool:
        return self._done

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        self.aborted = [code, details, trailing]
        raise grpc.aio.AbortError


async def run(failure: BaseException, context: FakeContext) -> None:
    async def fail(_request: bytes, _context: Any) -> bytes:
        raise failure

    await guard(fail, lambda: "incident-7")(b"", context)  # type: ignore[arg-type]


async def test_a_world_error_becomes_its_status() -> None:
    context = FakeContext()
    with pytest.raises(grpc.aio.AbortError):
        await run(NotFound(Reason.ENTRY_NOT_FOUND, path="/a", key="k"), context)
    assert context.aborted[0] is CODE_OF[Reason.ENTRY_NOT_FOUND]
    assert context.aborted[2][0][0] == "grpc-status-details-bin"


async def test_a_defect_becomes_an_incident_and_its_text_stays_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    context = FakeContext()
    with caplog.at_level(logging.ERROR), pytest.raises(grpc.aio.AbortError):
        await run(RuntimeError("/var/lib/secret"), context)
    code, details, trailing = context.aborted
    assert code is grpc.StatusCode.INTERNAL
    assert "incident-7" in details
    assert "secret" not in repr((details, trailing))
    assert "incident-7" in caplog.text
    assert "/var/lib/secret" in caplog.text


async def test_cancellation_and_aborts_pass() -> None:
    for failure in (asyncio.CancelledError(), grpc.aio.AbortError()):
        context = FakeContext()
        with pytest.raises(type(failure)):
            await run(failure, context)
        assert context.aborted == []


async def test_a_peer_that_has_gone_is_no_incident(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError):
        await run(RuntimeError("write failed"), FakeContext(done=True))
    assert caplog.text == ""


def test_incidents_differ() -> None:
    assert len({draw_incident() for _ in range(100)}) == 100


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff", b"\x0a\x02\xff\xfe"])
def test_what_is_no_message_is_malformed(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(environment_service_pb2.QueryRequest, data)
    assert caught.value.reason is Reason.MALFORMED_MESSAGE

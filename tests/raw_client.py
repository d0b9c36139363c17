"""A client without the SDK: messages of the contract, one at a time, and what came back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import grpc
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import errors_pb2, session_pb2
from google.rpc import error_details_pb2, status_pb2

SERVICE = "/env_api.v1.EnvironmentService/"
REQUESTS = {
    "register": (service.RegisterRequest, service.RegisterResponse),
    "query": (service.QueryRequest, service.QueryResponse),
    "update": (service.UpdateRequest, service.UpdateResponse),
    "delete": (service.DeleteRequest, service.DeleteResponse),
    "invoke": (service.InvokeRequest, service.InvokeResponse),
    "transact": (service.TransactRequest, service.TransactResponse),
}


@dataclass
class Failure:
    """An error as either form of it tells: of a unary call, or of an op in a frame."""

    code: int
    reason: str
    message: str
    metadata: dict[str, str]
    fields: list[str] = field(default_factory=list)
    retry_delay_ms: int = 0
    details_bytes: int = 0


def decode_call_error(error: grpc.aio.AioRpcError) -> Failure:
    """The details of a unary call's status."""
    code = int(error.code().value[0])
    found = Failure(code, "", error.details() or "", {})
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            found.details_bytes = len(value)
            for detail in status_pb2.Status.FromString(value).details:  # type: ignore[arg-type]
                _take_detail(detail, found)
    return found


def _take_detail(detail: Any, found: Failure) -> None:
    info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    if detail.Unpack(info):
        assert info.domain == "ecumene"
        found.reason, found.metadata = info.reason, dict(info.metadata)
    elif detail.Unpack(bad):
        found.fields = [violation.field for violation in bad.field_violations]
    elif detail.Unpack(retry):
        found.retry_delay_ms = retry.retry_delay.ToMilliseconds()


def decode_error(error: errors_pb2.Error) -> Failure:
    """An error inside a frame."""
    reason = errors_pb2.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")
    fields = [violation.field for violation in error.violations]
    return Failure(
        error.code, reason, error.message, dict(error.metadata), fields, error.retry_delay_ms, error.ByteSize()
    )


async def call(channel: grpc.aio.Channel, verb: str, **fields: Any) -> Any:
    """One unary call; the response, or how it failed."""
    request, response = REQUESTS[verb]
    name = SERVICE + verb.capitalize()
    method = channel.unary_unary(name, request.SerializeToString, response.FromString)
    try:
        return await method(request(**fields), timeout=30)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def call_with_bytes(channel: grpc.aio.Channel, method: str, data: bytes) -> Any:
    """One unary call with these bytes; the response's bytes, or how it failed."""
    try:
        return await channel.unary_unary(SERVICE + method)(data, timeout=30)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


class RawSession:
    """One session stream."""

    def __init__(self, channel: grpc.aio.Channel, client_id: str, world: str = "") -> None:
        self._stream: Any = channel.stream_stream(SERVICE + "Session")()
        self._client_id = client_id
        self._world = world
        self._seqs = itertools.count(1)
        self.welcome = session_pb2.Welcome()

    async def open(self) -> RawSession:
        """Says hello."""
        hello = session_pb2.Hello(client_id=self._client_id, world=self._world)
        await self.write(session_pb2.SessionRequest(hello=hello).SerializeToString())
        self.welcome = (await self.read()).welcome
        assert self.welcome.frame_ops_max
        return self

    async def write(self, data: bytes) -> None:
        """Sends bytes as one message."""
        await self._stream.write(data)

    async def read(self) -> session_pb2.SessionResponse:
        """The next message that is no heartbeat."""
        while True:
            data = await self._stream.read()
            assert data is not grpc.aio.EOF, "the stream has ended"
            response = session_pb2.SessionResponse.FromString(data)
            if response.WhichOneof("response") != "pong":
                return response

    async def send(self, frame: session_pb2.OpFrame) -> list[session_pb2.FrameAnswer]:
        """Sends a frame, numbered if it has no number; its answer in parts."""
        frame.seq = frame.seq or next(self._seqs)
        await self.write(session_pb2.SessionRequest(frame=frame).SerializeToString())
        return await self.read_answer()

    async def read_answer(self) -> list[session_pb2.FrameAnswer]:
        """The parts of the next answer, up to the last."""
        parts = []
        while True:
            response = await self.read()
            assert response.WhichOneof("response") == "answer", response
            parts.append(response.answer)
            if not response.answer.pending and not response.answer.more:
                return parts

    async def do(self, *ops: session_pb2.Op, path: str = "/") -> list[Any]:
        """Ops under one path; the outcome of each, None for a plain write that is done."""
        parts = await self.send(session_pb2.OpFrame(paths=[path], ops=ops))
        listed = {outcome.index: outcome for part in parts for outcome in part.outcomes}
        return [listed.get(index) for index in range(len(ops))]

    async def fail(self, op: session_pb2.Op, path: str) -> Failure | None:
        """One op and how it failed; None = it did not."""
        outcome = (await self.do(op, path=path))[0]
        return decode_error(outcome.error) if outcome is not None and outcome.HasField("error") else None

    def cancel(self) -> None:
        """Ends the stream without a word."""
        self._stream.cancel()

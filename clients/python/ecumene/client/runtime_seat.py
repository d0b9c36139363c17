"""A person's seat in an agent's place.

async with node.sit("monday", "agent-7", actor="ann") as seat:
    async for told in seat:
        if isinstance(told, SeatTurn):
            await seat.decide(told.turn, report=42.0)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
from agent_api.v1 import seats_pb2 as pb

from ecumene.client.errors import ClosedError
from ecumene.client.model import Json
from ecumene.client.runtime_errors import from_runtime_error
from ecumene.client.runtime_model import SeatAction, SeatOutcome, SeatTurn
from ecumene.client.runtime_readings import dump, fill_action, read_outcome, read_turn

NOTHING: Any = object()


class RuntimeSeat:
    """Iterating gives turns that wait, and how they ended; leaving the block gives the place back.

    Iterating raises EcumeneError when the node ends it: TurnOverError for a decision that came too late among them.
    """

    def __init__(self, method: Any, take: pb.TakeSeat, timeout_s: float) -> None:
        self._method = method
        self._take = take
        self._timeout_s = timeout_s
        self._call: Any = None
        self.note = ""
        """Key of the note about it."""
        self.group = ""
        self.profile: Mapping[str, Any] = {}
        """The agent's attributes."""

    async def decide(self, turn: int, *, report: Json = NOTHING, actions: Sequence[SeatAction] = ()) -> None:
        """What to do in a turn: the report that it asks for, and further actions, all at once."""
        if self._call is None:
            raise ClosedError("the seat was not taken, or was given back")
        data = b"" if report is NOTHING else dump(report)
        decide = pb.Decide(turn=turn, report_json=data, actions=[fill_action(action) for action in actions])
        try:
            await self._call.write(pb.SitRequest(decide=decide))
        except asyncio.InvalidStateError:
            raise ClosedError("the node has ended the seat") from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SeatTurn | SeatOutcome:
        message = await self._read()
        if message is None:
            raise StopAsyncIteration
        return read_turn(message.turn) if message.WhichOneof("response") == "turn" else read_outcome(message.outcome)

    async def __aenter__(self) -> Self:
        self._call = self._method()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._call.write(pb.SitRequest(take=self._take))
                message = await self._read()
        except BaseException:
            self._call.cancel()
            raise
        if message is None:
            raise ClosedError("the node has ended the seat")
        self.note, self.group = message.seated.note, message.seated.group
        self.profile = json.loads(message.seated.profile_json or b"{}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call, self._call = self._call, None
        call.cancel()

    async def _read(self) -> Any:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise from_runtime_error(error) from error
        return None if message is grpc.aio.EOF else message

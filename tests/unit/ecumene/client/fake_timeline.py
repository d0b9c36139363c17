"""A timeline service small enough to be read at once: it keeps what it was asked, and answers what it was told to."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from env_api.v1 import timeline_pb2, timeline_service_pb2, timeline_service_pb2_grpc


class FakeTimeline(timeline_service_pb2_grpc.TimelineServiceServicer):
    """One clock; a repeated request id has no second effect."""

    def __init__(self) -> None:
        self.clock = timeline_pb2.ClockState(path="/town", mode=timeline_pb2.CLOCK_MODE_MANUAL, rate=1.0)
        self.asked: list[Any] = []
        self.done: dict[str, timeline_service_pb2.ControlClockResponse] = {}
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        """How the next requests end, whatever they ask; they have their effect all the same."""
        self.arrived = asyncio.Event()
        self.arrived.set()
        self.pages: list[timeline_service_pb2.ListTimersResponse] = []

    async def GetClock(
        self, request: timeline_service_pb2.GetClockRequest, context: Any
    ) -> timeline_service_pb2.GetClockResponse:
        """As it stands."""
        self.asked.append(request)
        return timeline_service_pb2.GetClockResponse(clock=self.clock)

    async def ControlClock(
        self, request: timeline_service_pb2.ControlClockRequest, context: Any
    ) -> timeline_service_pb2.ControlClockResponse:
        """Advances by so much, once."""
        self.asked.append(request)
        identity = request.caller.request_id
        if identity not in self.done:
            self.clock.now_ns += request.control.advance_by_ns
            self.done[identity] = timeline_service_pb2.ControlClockResponse(clock=self.clock)
        await self.arrived.wait()
        if self.refusals:
            await context.abort(*self.refusals.pop(0))
        return self.done[identity] if self.clock.path else timeline_service_pb2.ControlClockResponse()

    async def ListTimers(
        self, request: timeline_service_pb2.ListTimersRequest, context: Any
    ) -> timeline_service_pb2.ListTimersResponse:
        """The next page."""
        self.asked.append(request)
        return self.pages.pop(0)

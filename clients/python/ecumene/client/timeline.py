"""Time of an environment: its clock and its timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from env_api.v1 import (
    environment_service_pb2,
    session_pb2,
    timeline_pb2,
    timeline_service_pb2,
    timeline_service_pb2_grpc,
)

from ecumene.client import timeline_actions
from ecumene.client.actions import WriteOptions
from ecumene.client.clock_reports import ClockReporter
from ecumene.client.clocks import ClockState, MissedTicks, TimerInfo, refuse_field
from ecumene.client.errors import EcumeneError
from ecumene.client.listings import Listing
from ecumene.client.model import EventFilter, Json, Written
from ecumene.client.participants import Participant
from ecumene.client.timeline_actions import ClockChange
from ecumene.client.timeline_reasons import ClockNotFoundError
from ecumene.client.unary_calls import identify
from ecumene.client.values import check_key

if TYPE_CHECKING:
    from ecumene.client.op_calls import OpCalls
    from ecumene.client.world import World

ARRIVAL_TIMEOUT_S = 86_400.0
"""A clock that heeds another one, or fires a million timers, arrives when it arrives."""


class EnvironmentClock:
    """The handle of an environment's clock; making it asks the server nothing. Get it from `Environment.clock`.

    What changes the clock is a call of its own, outside the session's frames: it is sent again when its connection
    breaks, and done once. It returns the clock as it stands on arrival: every timer that was due on the way has fired
    by then. All raise EcumeneError, among them ClockNotFoundError (the environment has no clock of its own),
    ClockPausedError, ClockOnItsWayError, ClockModeMismatchError, and ConnectionFailedError: no answer within the
    handle's timeout.
    """

    def __init__(self, world: World, path: str, timeout_s: float | None) -> None:
        self._world = world
        self._session = session = world.session
        self._timeout_s = timeout_s
        self._stub: Any = timeline_service_pb2_grpc.TimelineServiceStub(session.calls.channel)
        self.path: str = path

    def __repr__(self) -> str:
        return f"<EnvironmentClock of {self.path}>"

    async def state(self) -> ClockState:
        """How it stands; that of the nearest environment above which has one, if this one has none.

        Raises:
            ClockNotFoundError: there is none at all.
        """
        request = timeline_service_pb2.GetClockRequest(
            world=self._session.world, path=self.path, caller=self._identify()
        )
        answer = await self._session.calls.call(self._stub.GetClock, request, repeatable=True)
        return timeline_actions.read_clock_state(answer.clock)

    async def advance(self, *, by_ns: int | None = None, to_ns: int | None = None) -> ClockState:
        """Manual clocks: on by so much, or up to a time, firing what is due, each timer at its own time.

        Raises:
            TimePassedError: the time has passed.
        """
        if (by_ns is None) == (to_ns is None):
            raise refuse_field("advance by_ns or to_ns, one of the two")
        return await self._control({"advance_by_ns": by_ns} if by_ns is not None else {"advance_to_ns": to_ns or 0})

    async def step(self) -> ClockState:
        """On to the next timer that is due, and fire all that are due then; nothing when there is none. Any mode.

        An event-driven clock makes one jump, as soon as everybody is idle; at once if it has no participants.
        """
        return await self._control({"step": True})

    async def skip_to(self, to_ns: int) -> ClockState:
        """To a time at once: what was due before is dealt with by each timer's `missed`. Any mode.

        Raises:
            TimePassedError: the time has passed.
        """
        return await self._control({"skip_to_ns": to_ns})

    async def pause(self) -> ClockState:
        """Let it stand until it is resumed."""
        return await self._control({"pause": True})

    async def resume(self) -> ClockState:
        """Let it go on."""
        return await self._control({"resume": True})

    async def set_rate(self, rate: float) -> ClockState:
        """Realtime clocks: simulated time a real time from now on; finite, above 0."""
        return await self._control({"rate": rate})

    def participate(
        self, name: str, *, ttl_s: float | None = 15.0, hears: Sequence[EventFilter] | None = None
    ) -> Participant:
        """Take part in an event-driven clock, under this name: `async with clock.participate("bob") as bob:`.

        `hears`: what it has to deal with before time goes on, by path_prefix, path_glob, key_glob and types; None = all
        events of the clock's environment and below. The clock's own changes are heard in any case. `ttl_s`: of the
        lease under which it takes part: when this program is gone, or does not answer for so long, the clock goes on
        without it. None = without a lease: it takes the place of whoever takes part under this name, and if this
        program is gone, the clock stands until another one takes it, or the entry is deleted.

        Raises (when entered):
            ClockNotFoundError: there is no clock, here or above.
            ClockModeMismatchError: the nearest one is not event-driven: it waits for nobody.
            PermissionDeniedError: its participants are where the world's group may not look, or write.
            EntryExistsError: somebody takes part under this name, with `ttl_s`.
            EcumeneError: the server refused; the class says why.
        """
        return Participant(self._world, self.path, name, ttl_s, hears)

    def reporter(
        self, key: str, set_revision: int, *, on_void: Callable[[EcumeneError], None] | None = None
    ) -> ClockReporter:
        """Reports for a participant of an event-driven clock that was set as an entry in this revision.

        For programs with a watch of their own; most want `participate`. What the entry's value says that it hears has
        to be watched from `set_revision` on. `on_void` is called when the reports do not count any more.
        """
        return ClockReporter(self._session, self.path, key, set_revision, self._world.stamp, on_void)

    async def _control(self, change: ClockChange) -> ClockState:
        request = timeline_service_pb2.ControlClockRequest(
            world=self._session.world,
            path=self.path,
            control=timeline_actions.control_clock(change),
            caller=self._identify(),
        )
        answer: timeline_service_pb2.ControlClockResponse = await self._session.calls.call(
            self._stub.ControlClock, request, repeatable=True, answer_timeout_s=self._timeout_s or ARRIVAL_TIMEOUT_S
        )
        if not answer.HasField("clock"):
            raise ClockNotFoundError(f"{self.path} was deleted while its clock was on its way")
        return timeline_actions.read_clock_state(answer.clock)

    def _identify(self) -> environment_service_pb2.Caller:
        return identify(self._session.client_id, self._world.group)


class TimelineOps:
    """What an environment does with time; `Environment` has these methods."""

    _world: World
    _ops: OpCalls
    path: str
    timeout_s: float | None

    def clock(self) -> EnvironmentClock:
        """The handle of its clock; asks the server nothing."""
        return EnvironmentClock(self._world, self.path, self.timeout_s)

    async def set_timer(
        self,
        name: str,
        *,
        at_ns: int | None = None,
        after_ns: int | None = None,
        every_ns: int = 0,
        missed: MissedTicks = "coalesce",
        payload: Json = None,
        if_absent: bool = False,
        **options: Unpack[WriteOptions],
    ) -> Written:
        """Set a timer on the nearest clock, or set it anew: due at a time, or after a while, of the clock.

        Each firing is one TIMER_FIRED event of this environment, exactly once; the event's value is
        {"due_ns", "fired", "missed", "last", "payload"}, with "skipped": true where a skip passed it. A time that has
        passed is due at once. With `every_ns` it fires again and again; given alone, it is due after its first
        `every_ns`. `missed` says what becomes of ticks that a skip, or a stall of the server, has passed. `if_absent`
        leaves one of this name as it is.

        Raises:
            InvalidFieldError: `at_ns` and `after_ns` are given, or none of the three.
            ClockNotFoundError: neither this environment nor any above it has a clock.
            TimerQuotaError: too many timers are set.
        """
        timeline = timeline_actions.set_timer(
            at_ns=at_ns, after_ns=after_ns, every_ns=every_ns, missed=missed, payload=payload, if_absent=if_absent
        )
        return await self._change_timer(name, timeline, options)

    async def cancel_timer(self, name: str, *, if_present: bool = False, **options: Unpack[WriteOptions]) -> Written:
        """Cancel a timer.

        Raises:
            TimerNotFoundError: there is none, unless `if_present`.
        """
        return await self._change_timer(name, timeline_actions.cancel_timer(if_present), options)

    def timers(self, *, page_size: int = 0) -> Listing[TimerInfo]:
        """Timers of this environment by name; pages are fetched as they are needed."""
        session = self._world.session
        stub: Any = timeline_service_pb2_grpc.TimelineServiceStub(session.calls.channel)

        async def fetch(token: str) -> tuple[Sequence[TimerInfo], str]:
            request = timeline_service_pb2.ListTimersRequest(
                world=session.world,
                path=self.path,
                page_size=page_size,
                page_token=token,
                caller=identify(session.client_id, self._world.group),
            )
            page: timeline_service_pb2.ListTimersResponse = await session.calls.call(
                stub.ListTimers, request, repeatable=True
            )
            return [timeline_actions.read_timer(timer) for timer in page.timers], page.next_page_token

        return Listing(fetch)

    async def _change_timer(self, name: str, timeline: timeline_pb2.Timeline, options: WriteOptions) -> Written:
        op = session_pb2.Op(key=check_key(name), timeline=timeline)
        return await self._ops.answer(self._ops.write(op, options), Written)

"""The machine that compares a world of a real server with its model, over kills with frames and calls in flight.

Each run has a world of its own; all runs share one server.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Coroutine
from typing import Any, ClassVar

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import lease_service_pb2, session_pb2, world_service_pb2
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from env_server.model.errors import Reason
from env_server.model.limits import Limits
from tests.event_rows import Row, rows_of
from tests.promises.asks import FRAMES, KEYS, OPS, PATHS
from tests.promises.living_machine import WHICH
from tests.promises.living_model import NEVER, Happened, LivingModel
from tests.promises.wire_asks import TYPES, ask_alone, frame_of, picture_of_server, said_of_parts, told_of_row
from tests.promises.world_model import Ask, Said, Told, picture_of_model, read_again
from tests.raw_client import RawSession
from tests.services import ServerProcess

TTL_MS = 600_000
"""No lease ends by its time here; that is for the machine that turns the clock."""
SWEEP_ENTRIES_MAX = 1000
PLENTY = 1 << 40
CLIENT = "c"
WAIT_S = 30.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 50)]
WORLDS = "/env_api.v1.WorldService/"
LEASES = "/env_api.v1.LeaseService/"


class ServerMachine(RuleBasedStateMachine):
    """One world of the server, its model, one client with frames in flight, one watch."""

    server: ClassVar[ServerProcess]
    loop: ClassVar[asyncio.AbstractEventLoop]
    kills: ClassVar[int] = 0
    numbers: ClassVar[Any] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.world = f"m{next(self.numbers)}"
        self.model = LivingModel(items_max=Limits().stream_items_max)
        self.seq = 0
        self.answered: list[tuple[session_pb2.OpFrame, list[Ask], list[Said]]] = []
        self.requests: list[tuple[Ask, str, Said]] = []
        self.told: list[Told] = []
        self.through = 0
        self.rows_read: list[Row] = []
        self.channel: grpc.aio.Channel
        self.session: RawSession
        self.watcher: RawSession | None = None
        self.do(self.connect())
        self.do(self.manage("CreateWorld", world_service_pb2.CreateWorldRequest(name=self.world)))
        self.do(self.open_session())

    def do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs something to its end."""
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, WAIT_S))

    def teardown(self) -> None:
        """Every run ends with a kill, whatever else it did."""
        try:
            self.kill_with_frames_in_flight([[Ask("append", "/", "last", number)] for number in range(4)], 2)
            self.read_everything_and_compare()
        finally:
            self.do(self.manage("DeleteWorld", world_service_pb2.DeleteWorldRequest(name=self.world)))
            self.do(self.channel.close())

    @rule(frame=FRAMES)
    def send_a_frame(self, frame: list[Ask]) -> None:
        expected = [self.model.apply(ask) for ask in frame]
        self.seq += 1
        message = frame_of(frame, self.seq)
        self.check_answer(message, self.do(self.session.send(message)), expected)
        self.keep(message, frame, expected)

    @rule(ask=OPS, is_request=st.booleans())
    def call_alone(self, ask: Ask, is_request: bool) -> None:
        if ask.verb == "read":
            ask = ask._replace(version=0)
        request_id = str(uuid.UUID(int=next(self.numbers), version=4)) if is_request and not ask.producer else ""
        said = self.do(ask_alone(self.channel, self.world, ask, request_id))
        assert said == self.model.apply(ask)
        if request_id and ask.verb != "read":
            self.requests = [*self.requests[-7:], (ask, request_id, said)]

    @rule(back=st.integers(0, 7))
    def repeat_a_call(self, back: int) -> None:
        if back < len(self.requests):
            ask, request_id, said = self.requests[-1 - back]
            assert self.do(ask_alone(self.channel, self.world, ask, request_id)) == said

    @rule(frames=st.lists(FRAMES, min_size=1, max_size=4), delay_ms=st.integers(0, 6))
    def kill_with_frames_in_flight(self, frames: list[list[Ask]], delay_ms: int) -> None:
        """After the restart a prefix of the frames is there, whole; sent again, all are there once."""
        states, expected, messages = [self.model.copy()], [], []
        for frame in frames:
            expected.append([self.model.apply(ask) for ask in frame])
            states.append(self.model.copy())
            self.seq += 1
            messages.append(frame_of(frame, self.seq))
        answers = self.do(self.kill_after(messages, delay_ms))
        for message, parts, outcomes in zip(messages, answers, expected, strict=False):
            self.check_answer(message, parts, outcomes)
        seen = self.do(picture_of_server(self.channel, self.world))
        survivors = [state for state in states[len(answers) :] if picture_of_model(state) == seen]
        assert survivors, f"revision {seen['revision']}: none of {[state.revision for state in states[len(answers) :]]}"
        survived = max(number for number, state in enumerate(states) if state is survivors[-1])
        for number, (message, frame, outcomes) in enumerate(zip(messages, frames, expected, strict=True)):
            parts = self.do(self.session.send(message))
            said = read_again(survivors[-1], frame, outcomes) if number < survived else outcomes
            self.check_answer(message, parts, said)
            self.keep(message, frame, outcomes)

    @rule(back=st.integers(0, 5))
    def repeat_an_answered_frame(self, back: int) -> None:
        if back < len(self.answered):
            message, frame, expected = self.answered[-1 - back]
            self.check_answer(message, self.do(self.session.send(message)), read_again(self.model, frame, expected))

    @rule(is_repeated=st.booleans())
    def grant_a_lease(self, is_repeated: bool) -> None:
        said = self.model.apply(Ask("grant", "/", value=TTL_MS))
        caller = self.new_caller()
        for _ in range(1 + is_repeated):
            request = lease_service_pb2.GrantLeaseRequest(world=self.world, ttl_ms=TTL_MS, caller=caller)
            answer = self.do(self.ask_leases("GrantLease", request))
            assert lease_service_pb2.GrantLeaseResponse.FromString(answer).lease_id == said.revision

    @rule(place=st.tuples(PATHS, KEYS), which=WHICH, is_member=st.booleans())
    def put_under_a_lease(self, place: tuple[str, str], which: int, is_member: bool) -> None:
        ask = Ask("join" if is_member else "hold", *place, (self.choose_lease(which), which))
        assert self.do(ask_alone(self.channel, self.world, ask)) == self.model.apply(ask)

    @rule(which=WHICH, delay_ms=st.none() | st.integers(0, 6))
    def revoke_a_lease(self, which: int, delay_ms: int | None) -> None:
        """Perhaps the server is killed meanwhile; asked again under the same id, all of it is done, once."""
        lease = self.choose_lease(which)
        request = lease_service_pb2.RevokeLeaseRequest(world=self.world, lease_id=lease, caller=self.new_caller())
        if lease not in self.model.leases:
            with pytest.raises(grpc.aio.AioRpcError):
                self.do(self.ask_leases("RevokeLease", request))
            return
        if delay_ms is not None:
            self.do(self.kill_during(self.ask_leases("RevokeLease", request), delay_ms))
        self.do(self.ask_leases("RevokeLease", request))
        self.do(self.absorb({lease: "revoked"}))
        assert lease not in self.model.leases

    @rule(back=st.integers(0, 3))
    def acknowledge(self, back: int) -> None:
        upto = max(0, self.seq - back)
        acknowledged = session_pb2.SessionRequest(acknowledge=session_pb2.FrameAcknowledge(seq=upto))
        self.do(self.session.write(acknowledged.SerializeToString()))
        self.answered = [one for one in self.answered if one[0].seq > upto]

    @rule()
    def stop_and_start(self) -> None:
        self.server.stop()
        self.server.start()
        self.do(self.connect())
        self.do(self.open_session())

    @rule(credit=st.sampled_from([1, 3, 10]))
    def restart_the_watch(self, credit: int) -> None:
        """A reader without more credit than that is a slow one."""
        self.do(self.open_watch(credit))

    @rule()
    def read_everything_and_compare(self) -> None:
        self.do(self.read_watch())
        assert self.told == self.model.events
        assert self.do(picture_of_server(self.channel, self.world)) == picture_of_model(self.model)
        answer = self.do(self.ask_leases("ListLeases", lease_service_pb2.ListLeasesRequest(world=self.world)))
        listed = lease_service_pb2.ListLeasesResponse.FromString(answer).leases
        assert [one.lease_id for one in listed] == sorted(self.model.leases)

    def choose_lease(self, which: int) -> int:
        """One of the last that were granted, living or not, or one that never was."""
        known = sorted([*self.model.leases, *self.model.ended])
        return known[-1 - which] if which < len(known) else NEVER

    def new_caller(self) -> service.Caller:
        return service.Caller(request_id=str(uuid.UUID(int=next(self.numbers), version=4)))

    def check_answer(self, message: session_pb2.OpFrame, parts: list[Any], expected: list[Said]) -> None:
        found = said_of_parts(parts, len(expected))
        for index, said in enumerate(found):
            if said.reason is Reason.SEQUENCE_PASSED:  # only the last number is kept
                name, number = message.producers[index], message.producer_seqs[index]
                if name and self.model.producers[name][0] > number:
                    found[index] = expected[index]
        assert found == expected

    def keep(self, message: session_pb2.OpFrame, frame: list[Ask], expected: list[Said]) -> None:
        self.answered = [*self.answered[-7:], (message, frame, expected)]

    async def kill_after(self, messages: list[session_pb2.OpFrame], delay_ms: int) -> list[Any]:
        """Sends frames and kills the server a moment later; the answers that still came."""
        for message in messages:
            await self.session.write(session_pb2.SessionRequest(frame=message).SerializeToString())
        await asyncio.sleep(delay_ms / 1000)  # the moment of the fault
        self.server.kill()
        type(self).kills += 1
        answers = []
        try:
            while True:
                answers.append(await self.session.read_answer())
        except (grpc.aio.AioRpcError, AssertionError):  # the stream has ended
            pass
        self.server.start()
        await self.connect()
        await self.open_session()
        return answers

    async def kill_during(self, asking: Coroutine[Any, Any, Any], delay_ms: int) -> None:
        """Kills the server a moment after a call was begun, and starts it again; whether it was answered is open."""
        asked = asyncio.create_task(asking, name="asked during a kill")
        await asyncio.sleep(delay_ms / 1000)  # the moment of the fault
        self.server.kill()
        type(self).kills += 1
        await asyncio.gather(asked, return_exceptions=True)
        self.server.start()
        await self.connect()
        await self.open_session()

    async def ask_leases(self, name: str, request: Any) -> Any:
        return await self.channel.unary_unary(LEASES + name)(request.SerializeToString(), timeout=WAIT_S)

    async def absorb(self, may_end: dict[int, str]) -> None:
        """Reads what the world does by itself until nothing is left under leases that have ended."""
        await self.read_watch()
        while True:
            rows = [row for row in self.rows_read if row.revision > self.model.revision]
            self.model.absorb([Happened(told_of_row(row), row.cause) for row in rows], may_end, SWEEP_ENTRIES_MAX)
            if not self.model.left_over and not set(may_end) & set(self.model.leases):
                return
            await self.read_step()

    async def connect(self) -> None:
        if hasattr(self, "channel"):
            await self.channel.close()
        self.channel = grpc.aio.insecure_channel(self.server.address, options=OPTIONS)
        self.watcher = None

    async def open_session(self) -> None:
        self.session = await RawSession(self.channel, CLIENT, self.world).open()

    async def manage(self, name: str, request: Any) -> None:
        await self.channel.unary_unary(WORLDS + name)(request.SerializeToString(), wait_for_ready=True, timeout=WAIT_S)

    async def open_watch(self, credit: int) -> None:
        if self.watcher is not None:
            self.watcher.cancel()
        self.watcher = await RawSession(self.channel, "watcher", self.world).open()
        watch = session_pb2.WatchStart(watch_id=1, from_revision=self.through + 1, credit_events=credit)
        watch.credit_bytes = PLENTY
        watch.filter.types.extend(TYPES)  # type: ignore[arg-type]
        await self.watcher.write(session_pb2.SessionRequest(watch=watch).SerializeToString())

    async def read_watch(self) -> None:
        """Gives credit for what is missing and reads it."""
        if self.watcher is None:
            await self.open_watch(3)
        assert self.watcher is not None
        credit = session_pb2.WatchCredit(watch_id=1, events=PLENTY)
        await self.watcher.write(session_pb2.SessionRequest(credit=credit).SerializeToString())
        while self.through < self.model.revision:
            await self.read_step()

    async def read_step(self) -> None:
        """The next frame of the watch."""
        assert self.watcher is not None
        response = await self.watcher.read()
        assert response.HasField("events"), response
        self.rows_read = list(rows_of(response.events))
        self.told += map(told_of_row, self.rows_read)
        self.through = max(self.through, response.events.through_revision)

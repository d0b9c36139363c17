"""A real server against the model: any ops in frames and calls, kill -9 with frames in flight, repetitions, watches.

P1 to P10 over a network and a disk, as `test_engine_model` in one process. Each run has a world of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest
from env_api.v1 import session_pb2, world_service_pb2
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from env_server.model.errors import Reason
from env_server.model.limits import Limits
from tests.event_rows import rows_of
from tests.promises.asks import FRAMES, OPS
from tests.promises.wire_asks import ask_alone, frame_of, picture_of_server, said_of_parts, told_of_row
from tests.promises.world_model import Ask, Model, Said, Told, picture_of_model, read_again
from tests.raw_client import RawSession
from tests.services import ServerProcess

RUNS, RUNS_LONG = 5, 100
STEPS, STEPS_LONG = 15, 30
TYPES = range(1, 8)
PLENTY = 1 << 40
CLIENT = "c"
WAIT_S = 30.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 50)]
WORLDS = "/env_api.v1.WorldService/"


class ServerMachine(RuleBasedStateMachine):
    """One world of the server, its model, one client with frames in flight, one watch."""

    server: ClassVar[ServerProcess]
    loop: ClassVar[asyncio.AbstractEventLoop]
    kills: ClassVar[int] = 0
    numbers: ClassVar[Any] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.world = f"m{next(self.numbers)}"
        self.model = Model(items_max=Limits().stream_items_max)
        self.seq = 0
        self.answered: list[tuple[session_pb2.OpFrame, list[Ask], list[Said]]] = []
        self.requests: list[tuple[Ask, str, Said]] = []
        self.told: list[Told] = []
        self.through = 0
        self.credit = 0
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
            response = await self.watcher.read()
            assert response.HasField("events"), response
            self.told += map(told_of_row, rows_of(response.events))
            self.through = max(self.through, response.events.through_revision)


def run(server: ServerProcess, seed: int, runs: int, steps: int) -> int:
    """Runs the machine; raises what it finds. Returns how many kills there were."""
    chosen = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        phases=(Phase.generate,),
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    loop = asyncio.new_event_loop()
    machine = type("SeededMachine", (ServerMachine,), {"server": server, "loop": loop, "kills": 0})
    try:
        run_state_machine_as_test(hypothesis_seed(seed)(machine), settings=chosen)
    finally:
        loop.close()
    return int(machine.kills)


def test_a_killed_server_does_what_the_model_says(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "0.1") as server:
        assert run(server, seed, RUNS, STEPS) >= RUNS


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_killed_server_does_what_the_model_says_for_long(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "0.1") as server:
        assert run(server, seed, RUNS_LONG, STEPS_LONG) >= RUNS_LONG

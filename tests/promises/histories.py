"""Histories: who asked what when, and what came back, recorded at a real server by many clients at once.

Every op names its actor, a name of its own, so that its event can be found whatever became of the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2, session_pb2, values_pb2

from tests.raw_client import RawSession, call, decode_error
from tests.services import ServerProcess

PATH = "/h"
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 100)]
ANSWER_S = 30.0
AGAIN_S = 0.05
KEPT_REASONS = ("ENTRY_NOT_FOUND", "PRECONDITION_FAILED")


class Told(NamedTuple):
    """What a call was answered. For writes the version after it (0 = gone) and a counter's sum."""

    reason: str = ""
    value: int | None = None
    version: int = 0


NOTHING_TOLD = Told()


@dataclass(slots=True)
class Call:
    """One op of one client."""

    name: str
    client: str
    key: str
    verb: str
    """set, add, delete, read"""
    argument: int = 0
    expected_version: int = 0
    invoked_ns: int = 0
    returned_ns: int | None = None
    """None: nobody knows what came of it."""
    told: Told = NOTHING_TOLD
    revision: int = 0
    """Of the effect, or the one that a read or a failure rests on; 0 = not told."""


@dataclass
class History:
    """All calls, in the order in which they were invoked."""

    calls: list[Call] = field(default_factory=list)
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    known: int = 0

    def draw(self, client: str, keys: int, chance: random.Random) -> Call:
        """A random op: registers r0..., counters c0...; values are never written twice."""
        number = next(self.numbers)
        key = f"{chance.choice('rc')}{chance.randrange(keys)}"
        verb = chance.choices(["read", "set" if key[0] == "r" else "add", "delete"], [45, 50, 5])[0]
        made = Call(f"op-{number}", client, key, verb, number if verb == "set" else chance.randrange(1, 9))
        if verb == "set" and chance.random() < 0.3:
            made.expected_version = chance.randrange(1, 6)
        return made

    def invoke(self, calls: list[Call]) -> None:
        """Notes that the calls are sent now."""
        for one in calls:
            one.invoked_ns = time.monotonic_ns()
            self.calls.append(one)

    def end(self, one: Call, told: Told, revision: int) -> None:
        """Notes an answer."""
        one.returned_ns, one.told, one.revision = time.monotonic_ns(), told, revision
        self.known += 1


class SessionClient:
    """Frames of a few ops. A patient one sends again what was not answered; another one begins anew."""

    def __init__(self, name: str, server: ServerProcess, history: History, keys: int, chance: random.Random) -> None:
        self.name = name
        self.is_patient = chance.random() < 0.5
        self._server = server
        self._history = history
        self._keys = keys
        self._chance = chance
        self._lives = itertools.count(1)
        self._seq = 0

    async def run(self, stopped: asyncio.Event) -> None:
        """Sends frames until it is told to stop."""
        async with grpc.aio.insecure_channel(self._server.address, options=OPTIONS) as channel:
            unanswered: tuple[session_pb2.OpFrame, list[Call]] | None = None
            identity = self.name
            while not stopped.is_set() or unanswered:
                if not self.is_patient:
                    identity, unanswered = f"{self.name}-{next(self._lives)}", None
                try:
                    session = await RawSession(channel, identity).open()
                    while not stopped.is_set() or unanswered:
                        repeats = unanswered is not None
                        frame, calls = unanswered or self._make_frame()
                        unanswered = frame, calls
                        if not repeats:
                            self._history.invoke(calls)
                        async with asyncio.timeout(ANSWER_S):
                            parts = await session.send(frame)
                        unanswered = None
                        take_answer(self._history, calls, parts, repeats)
                    session.cancel()
                except (grpc.aio.AioRpcError, AssertionError):  # the stream has ended: the server is gone
                    await asyncio.sleep(AGAIN_S)

    def _make_frame(self) -> tuple[session_pb2.OpFrame, list[Call]]:
        calls = [self._history.draw(self.name, self._keys, self._chance) for _ in range(self._chance.randrange(1, 4))]
        frame = session_pb2.OpFrame(paths=[PATH], return_versions=True)
        self._seq += 1
        frame.seq = self._seq
        for one in calls:
            frame.ops.add(key=one.key, **action_of(one))
            frame.actors.append(one.name)
            frame.expect_versions.append(one.expected_version)
        return frame, calls


async def run_unary(
    name: str, server: ServerProcess, history: History, keys: int, chance: random.Random, stopped: asyncio.Event
) -> None:
    """One call after the other; every second client names producers and asks again, the others give up."""
    is_patient = chance.random() < 0.5
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        number = 0
        while not stopped.is_set():
            number += 1
            one = history.draw(name, keys, chance)
            history.invoke([one])
            while True:
                answer = await ask(channel, one, name if is_patient else "", number)
                reason = getattr(answer, "reason", "")
                if reason in KEPT_REASONS:
                    history.end(one, Told(reason), 0)
                elif not hasattr(answer, "code"):
                    told, revision = read_unary(one, answer)
                    history.end(one, told, revision)
                else:
                    await channel.channel_ready()
                    if is_patient:
                        continue
                break


def action_of(one: Call) -> dict[str, Any]:
    """The op's action in a frame."""
    if one.verb == "read":
        return {"query": queries_pb2.Query(get=queries_pb2.Get())}
    if one.verb == "delete":
        return {"delete": operations.Delete()}
    return {"set_int" if one.verb == "set" else "add_int": one.argument}


async def ask(channel: grpc.aio.Channel, one: Call, producer: str, number: int) -> Any:
    """The op as a unary call; the response, or how it failed."""
    caller = service.Caller(actor=one.name)
    if producer and one.verb != "read":
        caller.producer, caller.producer_seq = producer, number
    fields: dict[str, Any] = {"path": PATH, "key": one.key, "caller": caller}
    if one.expected_version:
        fields["preconditions"] = [operations.Precondition(version=one.expected_version)]
    if one.verb == "read":
        return await call(channel, "query", query=queries_pb2.Query(get=queries_pb2.Get()), **fields)
    if one.verb == "delete":
        return await call(channel, "delete", delete=operations.Delete(), **fields)
    if one.verb == "set":
        update = operations.Update(set=values_pb2.Value(int_value=one.argument))
    else:
        update = operations.Update(add_int=one.argument)
    return await call(channel, "update", update=update, **fields)


def read_unary(one: Call, answer: Any) -> tuple[Told, int]:
    """What a unary answer tells, and at which revision."""
    if one.verb == "read":
        entry = answer.result.entry
        return Told("", entry.value.int_value, entry.version), answer.header.revision
    written = answer.written
    return Told("", written.value.int_value if one.verb == "add" else None, written.version), written.revision


def take_answer(history: History, calls: list[Call], parts: list[Any], repeated: bool) -> None:
    """What a frame's answer tells of each op, and the revision that it took or rests on."""
    first = parts[0]
    listed = {outcome.index: outcome for part in parts for outcome in part.outcomes}
    taken = 0
    for index, one in enumerate(calls):
        takes_one = index not in first.without_revision
        taken += takes_one
        # What a repetition reads, or refuses, it does so now: the ranks are those of the first try.
        rests_on = 0 if repeated else first.base_revision + taken
        outcome = listed.get(index)
        if outcome is None:
            history.end(one, Told("", None, first.versions[index]), first.base_revision + taken)
        elif outcome.HasField("error"):
            reason = decode_error(outcome.error).reason
            assert reason in KEPT_REASONS, outcome
            history.end(one, Told(reason), rests_on)
        elif outcome.HasField("query"):
            entry = outcome.query.entry
            history.end(one, Told("", entry.value.int_value, entry.version), rests_on)
        else:
            written = outcome.written
            value = written.value.int_value if one.verb == "add" else None
            history.end(one, Told("", value, written.version), written.revision)

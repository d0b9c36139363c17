"""Timers of a real server that is killed, stopped and lied to about the time: each fires once, in order, never early.

Case 7: a timer fired twice. Case 42: times taken in the zone of the host.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import events_pb2, operations_pb2, session_pb2, timeline_pb2
from env_api.v1 import timeline_service_pb2 as pb

from env_server.diagnostics.failpoints import WRITER_PLACES
from env_server.offline.verify import verify
from tests.faults.test_clock_jumps import faketime
from tests.raw_client import RawSession, call
from tests.services import NotReadyError, ServerProcess

__all__ = ["faketime"]

SERVICE = "/env_api.v1.TimelineService/"
MANUAL = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL)
TOLD = [events_pb2.EVENT_TYPE_TIMER_FIRED, events_pb2.EVENT_TYPE_CLOCK_CHANGED]
MS = 1_000_000
FRAME = 250
KILLS_MIN = 3


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel


async def ask(channel: grpc.aio.Channel, rpc: str, timeout: float = 60, **fields: Any) -> Any:
    """A call of the TimelineService.

    Raises:
        grpc.aio.AioRpcError: it failed.
    """
    request = getattr(pb, f"{rpc}Request")(**fields)
    response = getattr(pb, f"{rpc}Response")
    method = channel.unary_unary(SERVICE + rpc, type(request).SerializeToString, response.FromString)
    return await method(request, timeout=timeout)


async def register(channel: grpc.aio.Channel, path: str, clock: timeline_pb2.Clock) -> None:
    answer = await call(channel, "register", path=path, register=operations_pb2.Register(clock=clock))
    assert answer.written.changed


async def set_timers(channel: grpc.aio.Channel, path: str, timers: dict[str, timeline_pb2.SetTimer]) -> None:
    session = await RawSession(channel, "setter").open()
    names = list(timers)
    for seq, first in enumerate(range(0, len(names), FRAME), 1):
        ops = [
            session_pb2.Op(path=0, key=name, timeline=timeline_pb2.Timeline(set_timer=timers[name]))
            for name in names[first : first + FRAME]
        ]
        answers = await session.send(session_pb2.OpFrame(seq=seq, paths=[path], ops=ops))
        assert not any(answer.outcomes for answer in answers)


async def told_until(channel: grpc.aio.Channel, path: str, is_last: Callable[[Any], bool]) -> list[Any]:
    """Events of clocks and timers of an environment, from the first on."""
    method = channel.unary_stream(
        "/env_api.v1.EnvironmentService/Monitor",
        service.MonitorRequest.SerializeToString,
        service.MonitorResponse.FromString,
    )
    wanted = events_pb2.EventFilter(path_prefix=path, types=TOLD)
    told: list[Any] = []
    async for response in method(service.MonitorRequest(filter=wanted, from_revision=1), timeout=60):
        told += response.events
        if told and is_last(told[-1]):
            return told
    raise AssertionError("the stream has ended")


def form_of(event: Any) -> dict[str, Any]:
    form: dict[str, Any] = json.loads(event.value.json_value)
    return form


async def advance_over_kills(
    directory: Path, monkeypatch: pytest.MonkeyPatch, seed: int, timers: int, kills_max: int
) -> None:
    """Timers that fire 20 times each, on one long way, on which the server is killed again and again."""
    chance, every, times = random.Random(seed), 1000, 20
    end = every * times
    due = {f"timer-{number}": chance.randrange(1, every + 1) for number in range(timers)}
    server, kills = ServerProcess(directory / "data"), 0
    with server:
        async with connected(server) as channel:
            await register(channel, "/town", MANUAL)
            asked = {name: timeline_pb2.SetTimer(at_ns=at, every_ns=every) for name, at in due.items()}
            await set_timers(channel, "/town", asked)
        control = timeline_pb2.ControlClock(advance_to_ns=end)
        caller = service.Caller(producer="driver", producer_seq=1)
        server.kill()
        while True:
            # By commits, not by time: a life of few commits is no whole way, however quick the machine.
            place = f"{chance.choice(sorted(WRITER_PLACES))}:kill:{chance.randrange(2, 5)}"
            monkeypatch.setenv("FAILPOINT", place if kills < kills_max else "")
            try:
                server.start()
                async with connected(server) as channel:
                    answer = await ask(channel, "ControlClock", path="/town", control=control, caller=caller)
                break
            except NotReadyError:
                kills += 1
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                assert await asyncio.to_thread(server.wait) == -signal.SIGKILL
                kills += 1
        monkeypatch.setenv("FAILPOINT", "")
        server.kill()
        server.start()
        async with connected(server) as channel:
            clock = (await ask(channel, "GetClock", path="/town")).clock
            assert (clock.now_ns, clock.HasField("target_ns"), clock.timers) == (end, False, timers)
            told = await told_until(channel, "/town", lambda event: event.type == TOLD[1] and event.sim_time_ns == end)
        assert server.stop() == 0
    assert answer.clock.now_ns == end
    assert kills >= KILLS_MIN, f"only {kills} kills came before the end: this shows nothing"
    fired = [(form_of(event)["due_ns"], event.key) for event in told if event.type == TOLD[0]]
    rank = {name: number for number, name in enumerate(due)}
    expected = sorted(
        ((at + tick * every, name) for name, at in due.items() for tick in range(times)),
        key=lambda one: (one[0], rank[one[1]]),
    )
    assert fired == expected
    assert all(event.sim_time_ns == form_of(event)["due_ns"] for event in told if event.type == TOLD[0])
    assert len({event.revision for event in told}) == len(told), "each is in a revision of its own"
    report = verify(directory / "data" / "main")
    assert report.is_whole, report.problems.told


async def test_timers_fire_once_and_in_order_over_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    await advance_over_kills(tmp_path, monkeypatch, seed, 500, 6)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_ten_thousand_timers_fire_once_and_in_order_over_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    await advance_over_kills(tmp_path, monkeypatch, seed, 10_000, 50)


async def test_a_realtime_clock_over_kills_and_a_stop_never_goes_back_and_fires_everything_once(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    realtime = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_REALTIME)
    due = {f"timer-{number}": chance.randrange(1, 2000) * MS for number in range(200)}
    server, seen = ServerProcess(tmp_path / "data"), 0
    with server:
        async with connected(server) as channel:
            await register(channel, "/town", realtime)
            await set_timers(channel, "/town", {name: timeline_pb2.SetTimer(at_ns=at) for name, at in due.items()})
        for _ in range(4):
            async with connected(server) as channel:
                now_ns = (await ask(channel, "GetClock", path="/town")).clock.now_ns
                assert now_ns >= seen, "it has gone back"
                await asyncio.sleep(chance.uniform(0.1, 0.4))
                seen = (await ask(channel, "GetClock", path="/town")).clock.now_ns
            server.kill()
            server.start()
        server.pause()
        await asyncio.sleep(0.5)
        server.resume()
        last = max(due.values())
        async with connected(server) as channel:
            told = await told_until(channel, "/town", lambda event: form_of(event).get("due_ns") == last)
            clock = (await ask(channel, "GetClock", path="/town")).clock
    fired = [(form_of(event)["due_ns"], event.key) for event in told if event.type == TOLD[0]]
    assert len(set(fired)) == len(fired) and {key for _, key in fired} == set(due)
    assert fired == sorted(fired, key=lambda one: one[0])
    times = [event.sim_time_ns for event in told]
    assert times == sorted(times) and clock.now_ns >= times[-1]
    assert all(event.sim_time_ns >= form_of(event)["due_ns"] for event in told if event.type == TOLD[0])


async def test_a_wall_clock_that_jumps_changes_nothing_for_timers(
    faketime: Callable[[str], None],
    tmp_path: Path,
) -> None:
    realtime = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_REALTIME)
    with ServerProcess(tmp_path / "data") as server:
        async with connected(server) as channel:
            await register(channel, "/town", realtime)
            tick = timeline_pb2.SetTimer(at_ns=200 * MS, every_ns=200 * MS, missed=timeline_pb2.MISSED_TICKS_CATCH_UP)
            await set_timers(channel, "/town", {"tick": tick})
            for jump in ("+1h", "-1h", "+0"):
                faketime(jump)
                await asyncio.sleep(0.5)
            told = await told_until(channel, "/town", lambda event: form_of(event)["fired"] == 8)
        walls = [event.wall_time_ns for event in told]
        assert max(walls) - min(walls) > 3_000_000 * MS, "the clock has not jumped: this shows nothing"
        assert [form_of(event)["due_ns"] for event in told] == [200 * MS * tick for tick in range(1, 9)]
        late = [event.sim_time_ns - form_of(event)["due_ns"] for event in told]
        assert min(late) >= 0 and max(late) < 2_000 * MS


async def test_time_zones_and_their_summers_leave_the_log_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days of simulated time over the begin and the end of summer time, where there is one and where there is none."""
    day = 86_400 * 1000 * MS
    logs = []
    for zone in ("UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        with ServerProcess(tmp_path / zone.replace("/", "-")) as server:
            async with connected(server) as channel:
                await register(channel, "/town", timeline_pb2.Clock(mode=MANUAL.mode, start_ns=1_700_000_000_000 * MS))
                await set_timers(channel, "/town", {"daily": timeline_pb2.SetTimer(after_ns=0, every_ns=day)})
                await ask(
                    channel, "ControlClock", path="/town", control=timeline_pb2.ControlClock(advance_by_ns=400 * day)
                )
                told = await told_until(
                    channel, "/town", lambda event: event.type == TOLD[1] and form_of(event)["target_ns"] is None
                )
            logs.append([(event.id, event.key, event.sim_time_ns, event.value.json_value) for event in told])
    assert len(logs[0]) == 403 and all(log == logs[0] for log in logs)

"""TimelineService, timers and clocks in frames, and simulated times on the wire, over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import operations_pb2, queries_pb2, session_pb2, timeline_pb2, values_pb2
from env_api.v1 import timeline_service_pb2 as pb

from env_server.model.errors import NotFound, Reason
from env_server.model.limits import Limits
from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.unit.env_server.rpc.fakes import Served
from tests.unit.env_server.rpc.real_worlds import serve_world

SERVICE = "/env_api.v1.TimelineService/"
MANUAL = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL, start_ns=100)
CALLER = service.Caller(producer="ann", producer_seq=1)


async def ask(served: Served, rpc: str, /, timeout: float = 10, **fields: Any) -> Any:
    """A call; the response, or how it failed."""
    request = getattr(pb, f"{rpc}Request")(**fields)
    method = served.channel.unary_unary(
        SERVICE + rpc, type(request).SerializeToString, getattr(pb, f"{rpc}Response").FromString
    )
    try:
        return await method(request, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def control(served: Served, path: str = "/town", **action: Any) -> Any:
    return await ask(served, "ControlClock", path=path, control=timeline_pb2.ControlClock(**action))


async def found_a_town(served: Served, clock: timeline_pb2.Clock = MANUAL) -> None:
    answer = await call(served.channel, "register", path="/town", register=operations_pb2.Register(clock=clock))
    assert answer.written.changed


async def test_a_clock_and_its_timers_from_their_begin_to_their_end() -> None:
    async with serve_world() as served:
        await found_a_town(served)
        timer = timeline_pb2.SetTimer(after_ns=10, every_ns=5, payload_json=b'{"what": "bell"}')
        answer = await ask(served, "SetTimer", path="/town", name="bell", timer=timer, caller=CALLER)
        assert (answer.changed, answer.duplicate, answer.header.sim_time_ns) == (True, False, 100)
        again = await ask(served, "SetTimer", path="/town", name="bell", timer=timer, caller=CALLER)
        assert (again.duplicate, again.header.revision) == (True, answer.header.revision)
        clock = (await ask(served, "GetClock", path="/town")).clock
        assert (clock.path, clock.mode, clock.now_ns, clock.rate) == ("/town", MANUAL.mode, 100, 1.0)
        assert (clock.timers, clock.next_due_ns, list(clock.held_by)) == (1, 110, [])
        answer = await control(served, advance_by_ns=17)
        assert (answer.clock.now_ns, answer.clock.next_due_ns, answer.header.sim_time_ns) == (117, 120, 117)
        assert not answer.clock.HasField("target_ns")
        (listed,) = (await ask(served, "ListTimers", path="/town")).timers
        assert (listed.name, listed.due_ns, listed.every_ns, listed.fired) == ("bell", 120, 5, 2)
        assert (listed.missed, listed.payload_json) == (timeline_pb2.MISSED_TICKS_COALESCE, b'{"what": "bell"}')
        assert (await ask(served, "CancelTimer", path="/town", name="bell")).changed
        assert (await ask(served, "CancelTimer", path="/town", name="bell")).reason == "TIMER_NOT_FOUND"
        assert not (await ask(served, "CancelTimer", path="/town", name="bell", if_present=True)).changed
        found = await call(served.channel, "query", path="/town", query=queries_pb2.Query(get=queries_pb2.Get()))
        assert (found.header.sim_time_ns, found.result.environment.clock) == (117, MANUAL)
        root = await call(served.channel, "query", path="/", query=queries_pb2.Query(get=queries_pb2.Get()))
        assert not root.header.HasField("sim_time_ns")


async def test_timers_are_listed_in_pages() -> None:
    async with serve_world() as served:
        await found_a_town(served)
        for name in "dbca":
            await ask(served, "SetTimer", path="/town", name=name, timer=timeline_pb2.SetTimer(at_ns=200))
        first = await ask(served, "ListTimers", path="/town", page_size=3)
        assert [timer.name for timer in first.timers] == ["a", "b", "c"]
        rest = await ask(served, "ListTimers", path="/town", page_size=3, page_token=first.next_page_token)
        assert ([timer.name for timer in rest.timers], rest.next_page_token) == (["d"], "")


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("GetClock", {"path": "/"}, "CLOCK_NOT_FOUND"),
        ("GetClock", {"path": "/none"}, "ENVIRONMENT_NOT_FOUND"),
        ("GetClock", {"path": "town"}, "INVALID_PATH"),
        ("ControlClock", {"path": "/town"}, "INVALID_FIELD"),
        ("ControlClock", {"path": "/town", "control": timeline_pb2.ControlClock(step=False)}, "INVALID_FIELD"),
        ("ControlClock", {"path": "/town", "control": timeline_pb2.ControlClock(advance_by_ns=-1)}, "INVALID_FIELD"),
        ("ControlClock", {"path": "/town", "control": timeline_pb2.ControlClock(advance_to_ns=99)}, "TIME_PASSED"),
        ("ControlClock", {"path": "/town", "control": timeline_pb2.ControlClock(skip_to_ns=99)}, "TIME_PASSED"),
        ("ControlClock", {"path": "/town", "control": timeline_pb2.ControlClock(rate=2)}, "CLOCK_MODE_MISMATCH"),
        ("ControlClock", {"path": "/", "control": timeline_pb2.ControlClock(step=True)}, "CLOCK_NOT_FOUND"),
        ("SetTimer", {"path": "/town", "name": "a"}, "INVALID_FIELD"),
        ("SetTimer", {"path": "/town", "name": "a/b", "timer": timeline_pb2.SetTimer(at_ns=1)}, "INVALID_KEY"),
        ("SetTimer", {"path": "/town", "timer": timeline_pb2.SetTimer(at_ns=1)}, "INVALID_KEY"),
        ("SetTimer", {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(after_ns=-1)}, "INVALID_FIELD"),
        (
            "SetTimer",
            {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(after_ns=2**63 - 1)},
            "INVALID_FIELD",
        ),
        (
            "SetTimer",
            {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(at_ns=1, every_ns=-1)},
            "INVALID_FIELD",
        ),
        (
            "SetTimer",
            {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(at_ns=1, missed=9)},
            "INVALID_FIELD",
        ),
        (
            "SetTimer",
            {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(at_ns=1, payload_json=b"{")},
            "INVALID_VALUE",
        ),
        (
            "SetTimer",
            {"path": "/town", "name": "a", "timer": timeline_pb2.SetTimer(at_ns=1, payload_json=b'"' + b"x" * 20_000)},
            "LIMIT_EXCEEDED",
        ),
        ("SetTimer", {"path": "/", "name": "a", "timer": timeline_pb2.SetTimer(at_ns=1)}, "CLOCK_NOT_FOUND"),
        ("ListTimers", {"path": "/none"}, "ENVIRONMENT_NOT_FOUND"),
        ("ListTimers", {"path": "/town", "page_token": "a/b"}, "INVALID_KEY"),
        ("ListTimers", {"path": "/town", "page_size": -1}, "INVALID_FIELD"),
    ],
)
async def test_what_cannot_be_meant_is_refused(name: str, fields: dict[str, Any], reason: str) -> None:
    async with serve_world() as served:
        await found_a_town(served)
        answer = await ask(served, name, **fields)
        assert isinstance(answer, Failure) and answer.reason == reason, answer


async def test_bad_declarations_of_clocks_are_refused() -> None:
    bad = {
        "unknown": (timeline_pb2.Clock(), "INVALID_FIELD"),
        "mode": (timeline_pb2.Clock(mode=9), "INVALID_FIELD"),  # type: ignore[arg-type]
        "rate": (timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL, rate=2), "INVALID_FIELD"),
        "negative": (timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_REALTIME, rate=-1), "INVALID_FIELD"),
        "infinite": (timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_REALTIME, rate=float("inf")), "INVALID_FIELD"),
        "ahead": (timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL, lookahead_ns=-1), "INVALID_FIELD"),
    }
    async with serve_world() as served:
        for name, (clock, reason) in bad.items():
            register = operations_pb2.Register(clock=clock)
            answer = await call(served.channel, "register", path=f"/{name}", register=register)
            assert isinstance(answer, Failure) and answer.reason == reason, name
        await found_a_town(served)
        update = operations_pb2.Update(environment=operations_pb2.EnvironmentUpdate(clock=MANUAL))
        answer = await call(served.channel, "update", path="/town", update=update)
        assert (answer.reason, answer.metadata["path"]) == ("CLOCK_EXISTS", "/town")
        assert (await call(served.channel, "update", path="/", update=update)).written.changed
        answer = await call(
            served.channel, "register", path="/town", key="x", register=operations_pb2.Register(clock=MANUAL)
        )
        assert answer.reason == "INVALID_FIELD"


async def test_timers_are_set_in_frames_and_transactions_and_rows_tell_the_time() -> None:
    async with serve_world() as served:
        await found_a_town(served)
        session = await RawSession(served.channel, "c1").open()
        advance = timeline_pb2.Timeline(control=timeline_pb2.ControlClock(advance_to_ns=150))
        bell = timeline_pb2.Timeline(set_timer=timeline_pb2.SetTimer(at_ns=120))
        refused = timeline_pb2.Timeline(set_timer=timeline_pb2.SetTimer(at_ns=120, every_ns=-1))
        writes = [
            operations_pb2.Write(path="/town", key="two", timeline=bell),
            operations_pb2.Write(path="/town", timeline=advance),
        ]
        ops = [
            session_pb2.Op(path=0, key="one", timeline=bell),
            session_pb2.Op(path=0, key="bad", timeline=refused),
            session_pb2.Op(path=0, transact=operations_pb2.Transact(writes=writes)),
        ]
        (answer,) = await session.send(session_pb2.OpFrame(seq=1, paths=["/town"], ops=ops))
        assert [outcome.index for outcome in answer.outcomes if outcome.HasField("error")] == [1]
        method = served.channel.unary_stream(
            "/env_api.v1.EnvironmentService/Monitor",
            service.MonitorRequest.SerializeToString,
            service.MonitorResponse.FromString,
        )
        told: list[Any] = []
        async for response in method(service.MonitorRequest(from_revision=1), timeout=10):
            told += response.events
            if told and told[-1].type == 26 and json.loads(told[-1].value.json_value)["target_ns"] is None:
                break
        assert [(event.type, event.key, event.sim_time_ns) for event in told[2:]] == [
            (27, "one", 100),
            (27, "two", 100),
            (26, "", 100),
            (16, "one", 120),
            (16, "two", 120),
            (26, "", 150),
        ]
        assert not told[0].HasField("sim_time_ns")
        assert json.loads(told[5].value.json_value) == {
            "due_ns": 120,
            "fired": 1,
            "missed": 0,
            "last": True,
            "payload": None,
        }


async def test_control_is_answered_after_the_arrival_and_a_caller_that_gives_up_ends_only_its_waiting() -> None:
    async with serve_world() as served:
        await found_a_town(served)
        inner = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL, start_ns=100, lookahead_ns=5)
        await call(served.channel, "register", path="/town/inn", register=operations_pb2.Register(clock=inner))
        answer = await ask(
            served, "ControlClock", timeout=0.5, path="/town/inn", control=timeline_pb2.ControlClock(advance_by_ns=20)
        )
        assert answer.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
        clock = (await ask(served, "GetClock", path="/town/inn")).clock
        assert (clock.now_ns, clock.target_ns) == (105, 120)
        (why,) = clock.held_by
        assert "/town" in why
        waiting = asyncio.ensure_future(control(served, "/town/inn", advance_by_ns=1))
        await control(served, advance_by_ns=50)
        assert (await waiting).clock.now_ns == 121


async def test_who_waits_for_an_arrival_is_told_when_the_server_drains_or_the_world_is_closed_or_gone() -> None:
    """Not that it has arrived, and at once: a clock that another one holds may never arrive."""
    gone = NotFound(Reason.WORLD_NOT_FOUND, world="main")
    ends: dict[str, Callable[[Served], object]] = {
        "DRAINING": lambda served: served.service.drain("the server is about to stop", 0.0),
        "DRAINING closed": lambda served: served.world.timekeeping.stop(),  # type: ignore[attr-defined]
        "WORLD_NOT_FOUND": lambda served: served.world.timekeeping.abandon(gone),  # type: ignore[attr-defined]
    }
    for reason, end in ends.items():
        async with serve_world() as served:
            await found_a_town(served)
            inner = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_MANUAL, start_ns=100, lookahead_ns=5)
            await call(served.channel, "register", path="/town/inn", register=operations_pb2.Register(clock=inner))
            asked: dict[str, Any] = {
                "path": "/town/inn",
                "control": timeline_pb2.ControlClock(advance_by_ns=20),
                "caller": CALLER,
            }
            waiting = asyncio.ensure_future(ask(served, "ControlClock", **asked))
            while not (await ask(served, "GetClock", path="/town/inn")).clock.HasField("target_ns"):
                pass
            ended = end(served)
            if asyncio.iscoroutine(ended):
                await ended
            answer = await waiting
            assert answer.reason == reason.split()[0] and served.world.users == 0, answer
            if reason == "DRAINING":
                assert answer.metadata["executed"] == "unknown" and answer.retry_delay_ms
                assert (await ask(served, "ControlClock", **asked)).reason == "DRAINING", "also of who comes later"


async def test_a_realtime_clock_never_shows_less_than_it_told() -> None:
    async with serve_world() as served:
        await found_a_town(served, timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_REALTIME, rate=1000.0))
        seen = [(await ask(served, "GetClock", path="/town")).clock.now_ns for _ in range(5)]
        assert seen == sorted(set(seen))
        paused = (await control(served, pause=True)).clock
        assert paused.paused and paused.now_ns > seen[-1]
        assert (await ask(served, "GetClock", path="/town")).clock.now_ns == paused.now_ns
        assert (await control(served, advance_by_ns=1)).reason == "CLOCK_MODE_MISMATCH"
        assert (await control(served, skip_to_ns=2**62)).reason == "CLOCK_PAUSED"
        value = values_pb2.Value(int_value=1)
        answer = await call(served.channel, "update", path="/town", key="x", update=operations_pb2.Update(set=value))
        assert answer.header.sim_time_ns == paused.now_ns


async def test_timers_have_their_quota() -> None:
    async with serve_world(Limits(timers_max=1)) as served:
        await found_a_town(served)
        timer = timeline_pb2.SetTimer(at_ns=200)
        assert (await ask(served, "SetTimer", path="/town", name="a", timer=timer)).changed
        assert (await ask(served, "SetTimer", path="/town", name="a", timer=timer)).changed
        answer = await ask(served, "SetTimer", path="/town", name="b", timer=timer)
        assert (answer.reason, answer.metadata["limit"]) == ("TIMER_QUOTA", "timers_max")


async def test_a_group_is_told_of_no_clock_and_no_timer_where_it_may_not_look() -> None:
    async with serve_world() as served:
        await found_a_town(served)
        own, other = service.Caller(group="/town"), service.Caller(group="/village")
        pause = {"control": timeline_pb2.ControlClock(pause=True)}
        calls: dict[str, dict[str, Any]] = {"GetClock": {}, "ListTimers": {}, "ControlClock": pause}
        for rpc, asked in calls.items():
            assert not isinstance(await ask(served, rpc, path="/town", caller=own, **asked), Failure)
            denied = await ask(served, rpc, path="/town", caller=other, **asked)
            assert denied.reason == "PERMISSION_DENIED"
            absent = await ask(served, rpc, path="/nowhere", caller=other, **asked)
            assert absent.reason == "PERMISSION_DENIED", "whether it exists is not told"
            broken = await ask(served, rpc, path="/town", caller=service.Caller(group="no path"), **asked)
            assert broken.reason == "INVALID_PATH"


async def test_who_controls_a_clock_is_told_no_more_of_it_than_who_reads_it() -> None:
    async with serve_world() as served:
        await call(served.channel, "register", path="/secret", register=operations_pb2.Register())
        clock = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_EVENT_DRIVEN, participants_path="/secret")
        await found_a_town(served, clock)
        update = operations_pb2.Update(set=values_pb2.Value(int_value=1))
        await call(served.channel, "update", path="/secret", key="bob", update=update)
        pause = timeline_pb2.ControlClock(pause=True)
        told = (await ask(served, "ControlClock", path="/town", control=pause)).clock
        assert told.participants_path == "/secret" and "bob: no report" in told.held_by
        caller = service.Caller(group="/town")
        controlled = await ask(served, "ControlClock", path="/town", control=pause, caller=caller)
        read = await ask(served, "GetClock", path="/town", caller=caller)
        assert controlled.clock == read.clock and not read.clock.participants_path
        assert "bob" not in " ".join(controlled.clock.held_by)

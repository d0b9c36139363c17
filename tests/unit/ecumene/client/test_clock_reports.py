"""What is said of participants: behind the ops that came before, on each stream anew, and never after it is void."""

from __future__ import annotations

import asyncio

import pytest
from ecumene import EcumeneError, FencedError, World
from env_api.v1 import errors_pb2, session_pb2, timeline_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached
from tests.unit.ecumene.client.test_refused_ops import refusal


def reports(server: FakeServer) -> list[timeline_pb2.ClockReport]:
    """Those of the stream at hand."""
    received = server.streams[-1].received
    return [message.clock_report for message in received if message.WhichOneof("request") == "clock_report"]


async def test_a_report_follows_the_ops_that_were_issued_before(server: FakeServer, world: World) -> None:
    reporter = world.environment("/town").clock().reporter("bob", 7)
    issued = [asyncio.ensure_future(world.environment("/").set(f"k{number}", number)) for number in range(300)]
    await asyncio.sleep(0)
    reporter.report(consumed_revision=9, earliest_wake_ns=40)
    await reached(lambda: bool(reports(server)))
    kinds = server.streams[-1].kinds()
    sent_before = kinds[: kinds.index("clock_report")].count("frame")
    assert sent_before == len(server.frames()) and sum(len(frame.ops) for frame in server.frames()) == 300
    (report,) = reports(server)
    assert (report.path, report.key, report.set_revision) == ("/town", "bob", 7)
    assert (report.busy, report.earliest_wake_ns, report.consumed_revision) == (False, 40, 9)
    await asyncio.gather(*issued)


async def test_it_waits_for_ops_that_the_server_does_not_take_yet(server: FakeServer, world: World) -> None:
    server.answering = False
    reporter = world.environment("/town").clock().reporter("bob", 7)
    issued = []
    for number in range(20):  # more frames than may be unanswered
        issued.append(asyncio.ensure_future(world.environment("/").set(f"k{number}", number)))
        await asyncio.sleep(0.002)
    reporter.report(consumed_revision=9)
    await asyncio.sleep(0.05)
    assert len(server.frames()) == server.welcome.frames_in_flight_max and not reports(server)
    server.answering = True
    server.cut()
    await asyncio.gather(*issued)
    await reached(lambda: bool(reports(server)))


async def test_what_was_said_behind_ops_that_were_refused_for_now_is_said_again_behind_them(
    server: FakeServer, world: World
) -> None:
    server.outcomes = [refusal(delay_ms=20)]
    reporter = world.environment("/town").clock().reporter("bob", 7)
    issued = asyncio.ensure_future(world.environment("/").set("a", 1.0))
    await asyncio.sleep(0)
    reporter.report(consumed_revision=9)
    await issued
    await reached(lambda: len(reports(server)) == 2)
    assert [kind for kind in server.streams[-1].kinds() if kind in ("frame", "clock_report")] == [
        *("frame", "clock_report", "frame", "clock_report")
    ]
    assert [report.refusals for report in reports(server)] == [0, 1]
    server.cut()
    await reached(lambda: len(server.streams) == 2 and bool(reports(server)))
    assert [report.refusals for report in reports(server)] == [0], "of each stream"


async def test_what_waits_for_refused_ops_is_said_when_they_are_given_up(server: FakeServer, world: World) -> None:
    server.outcomes = [refusal(delay_ms=50)]
    reporter = world.environment("/town").clock().reporter("bob", 7)
    issued = asyncio.ensure_future(world.environment("/").set("a", 1.0))
    await reached(lambda: world.session._outbox.has_unsent and bool(server.frames()))
    reporter.report(consumed_revision=9)
    issued.cancel()
    await reached(lambda: bool(reports(server)))
    assert len(server.frames()) == 1


async def test_only_the_last_counts_and_it_is_said_on_every_stream(server: FakeServer, world: World) -> None:
    reporter = world.environment("/town").clock().reporter("bob", 7)
    reporter.report(consumed_revision=1)
    reporter.report(consumed_revision=2)
    await reached(lambda: bool(reports(server)))
    assert [report.consumed_revision for report in reports(server)] == [2]
    server.cut()
    await reached(lambda: len(server.streams) == 2 and bool(reports(server)))
    assert [report.consumed_revision for report in reports(server)] == [2]
    await reporter.close()
    server.cut()
    await reached(lambda: len(server.streams) == 3)
    await world.environment("/").set("k", 1)
    assert not reports(server)


async def test_one_that_is_void_is_told_and_says_nothing_more(server: FakeServer, world: World) -> None:
    lost: list[EcumeneError] = []
    clock = world.environment("/town").clock()
    mine, other = clock.reporter("bob", 7, on_void=lost.append), clock.reporter("bob", 8, on_void=lost.append)
    mine.report()
    other.report()
    await reached(lambda: len(reports(server)) == 2)
    error = errors_pb2.Error(reason=errors_pb2.ERROR_REASON_FENCED, message="set again")
    void = timeline_pb2.ClockReportVoid(path="/town", key="bob", set_revision=7, error=error)
    for _ in range(2):
        server.streams[-1].outgoing.put_nowait(session_pb2.SessionResponse(clock_report_void=void))
    await reached(lambda: bool(lost))
    with pytest.raises(FencedError):
        mine.report()
    other.report(busy=True)
    server.cut()
    await reached(lambda: len(server.streams) == 2 and bool(reports(server)))
    assert len(lost) == 1 and [(report.set_revision, report.busy) for report in reports(server)] == [(8, True)]

"""Small requests that ask for much: nobody else waits long, and memory stays bounded.

Each frame took from 13 s to many minutes once, during which the server answered nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import psutil
import pytest
from env_api.v1 import errors_pb2, queries_pb2, session_pb2, space_pb2, values_pb2
from env_api.v1 import operations_pb2 as operations

from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess

WAIT_CPU_S_MAX = 5.0
"""What the server may do before it answers somebody else, in CPU: the clock runs on while other processes have it."""
GROWTH_BYTES_MAX = 600 << 20
OPS = 4096
ENTRIES = 20_000
CHILDREN = 4000
NOW_REFUSED = {errors_pb2.ERROR_REASON_RATE_LIMITED, errors_pb2.ERROR_REASON_QUEUE_FULL}
BIG = b'{"big":"' + b"x" * 1_000_000 + b'"}'


def frame(paths: list[str], op: Callable[[int], session_pb2.Op]) -> session_pb2.OpFrame:
    return session_pb2.OpFrame(paths=paths, ops=[op(index) for index in range(OPS)])


def registrations() -> session_pb2.OpFrame:
    paths = [f"/e{index}" for index in range(OPS)]
    return frame(paths, lambda index: session_pb2.Op(path=index, register=operations.Register()))


def deletions_beside_a_long_path_table() -> session_pb2.OpFrame:
    delete = operations.Delete(if_present=True)
    return frame(["/absent"] * 250_000, lambda _: session_pb2.Op(delete=delete))


def listings(prefix: str) -> session_pb2.OpFrame:
    ask = queries_pb2.Query(list_entries=queries_pb2.ListEntries(key_prefix=prefix, page_size=1))
    return frame(["/"], lambda _: session_pb2.Op(query=ask))


def merges() -> session_pb2.OpFrame:
    update = operations.Update(merge_json=b'{"a":1}')
    return frame(["/"], lambda _: session_pb2.Op(key="big", update=update))


def environment_updates(update: operations.EnvironmentUpdate) -> session_pb2.OpFrame:
    return frame(["/big"], lambda _: session_pb2.Op(update=operations.Update(environment=update)))


def listings_in_turn() -> session_pb2.OpFrame:
    ask = queries_pb2.Query(list_entries=queries_pb2.ListEntries(page_size=1))
    return frame(["/", "/many"], lambda index: session_pb2.Op(path=index % 2, query=ask))


def listings_of_children() -> session_pb2.OpFrame:
    ask = queries_pb2.Query(list_children=queries_pb2.ListChildren(page_size=1))
    return frame(["/many"], lambda _: session_pb2.Op(query=ask))


def aggregates_that_come_and_go(aggregate: values_pb2.Aggregate) -> session_pb2.OpFrame:
    updates = (
        operations.EnvironmentUpdate(set_aggregates=[aggregate]),
        operations.EnvironmentUpdate(remove_aggregates=[aggregate.name]),
    )
    return frame(["/many"], lambda index: session_pb2.Op(update=operations.Update(environment=updates[index % 2])))


def deletions_that_are_taken_back() -> session_pb2.OpFrame:
    delete = operations.Write(path="/many", delete=operations.Delete(recursive=True))
    fail = operations.Write(path="/absent", key="k", update=operations.Update(set=values_pb2.Value(int_value=1)))
    return frame(["/"], lambda _: session_pb2.Op(transact=operations.Transact(writes=[delete, fail])))


def questions(**asked: queries_pb2.Nearby | queries_pb2.Neighbours) -> session_pb2.OpFrame:
    return frame(["/crowd"], lambda _: session_pb2.Op(query=queries_pb2.Query(**asked)))  # type: ignore[arg-type]


def moves_in_a_crowd() -> session_pb2.OpFrame:
    """All come within all distances of about sixty others, and leave as many."""
    move = operations.Update(move=operations.Move(position=(20.0, 20.0)))
    return frame(["/meetings"], lambda index: session_pb2.Op(key=f"k{index}", update=move))


def spaces(*discs: float, edges: int = 0) -> session_pb2.OpFrame:
    graph = space_pb2.Graph(nodes=100_000, to=range(1, edges + 1), **{"from": range(edges)})
    disc = [
        space_pb2.Region(name=f"r{number}", disc=space_pb2.Disc(centre=[float(number)], radius=radius))
        for number, radius in enumerate(discs)
    ]
    register = operations.Register(space=space_pb2.Space(graph=graph, regions=disc))
    count = min(OPS, 3_500_000 // (register.ByteSize() + 20))
    ops = [session_pb2.Op(path=number, register=register) for number in range(count)]
    return session_pb2.OpFrame(paths=[f"/g{number}" for number in range(count)], ops=ops)


FRAMES: dict[str, Callable[[], session_pb2.OpFrame]] = {
    "registrations": registrations,
    "deletions": deletions_beside_a_long_path_table,
    "listings": lambda: listings("k"),
    "listings by prefix": lambda: listings("none"),
    "listings in turn": listings_in_turn,
    "listings of children": listings_of_children,
    "aggregates": lambda: aggregates_that_come_and_go(values_pb2.Aggregate(name="a", function=4, scope=1)),  # type: ignore[arg-type]
    "roll-ups": lambda: aggregates_that_come_and_go(values_pb2.Aggregate(name="n", function=1, scope=2)),  # type: ignore[arg-type]
    "deletions that are taken back": deletions_that_are_taken_back,
    "merges": merges,
    "labels": lambda: environment_updates(operations.EnvironmentUpdate(set_labels={"a": "b"})),
    "generations": lambda: environment_updates(
        operations.EnvironmentUpdate(begin_generation=operations.GateBegin(gate="g"))
    ),
    "circles": lambda: questions(nearby=queries_pb2.Nearby(position=(1.0, 1.0), radius=5.0, limit=1)),
    "boxes": lambda: questions(nearby=queries_pb2.Nearby(box=space_pb2.Box(low=(0, 0), high=(9, 9)), limit=1)),
    "neighbours": lambda: questions(
        neighbours=queries_pb2.Neighbours(nearest=2000, keys=[f"k{number}" for number in range(30)])
    ),
    "moves": moves_in_a_crowd,
    "empty graphs": spaces,
    "graphs": lambda: spaces(edges=20_000),
    "discs": lambda: spaces(*[20_000.0] * 900, edges=20_000),
}


FAILURES = {
    "aggregates": [errors_pb2.ERROR_REASON_AGGREGATE_NOT_FOUND],
    "roll-ups": [errors_pb2.ERROR_REASON_AGGREGATE_NOT_FOUND],
    "deletions that are taken back": [errors_pb2.ERROR_REASON_ENVIRONMENT_NOT_FOUND],
    "moves": [errors_pb2.ERROR_REASON_ENTRY_NOT_FOUND],
    "discs": [errors_pb2.ERROR_REASON_LIMIT_EXCEEDED],
}
"""What is told of single ops: of one that follows an op which was refused, or that was made to fail."""


async def fill(channel: grpc.aio.Channel) -> None:
    await call(channel, "register", path="/many", register=operations.Register())
    session = await RawSession(channel, "fill").open()
    keys = [f"k{number}" for number in range(ENTRIES)]
    for start in range(0, ENTRIES, OPS):
        part = keys[start : start + OPS]
        for path in ("/", "/many"):
            await session.send(
                session_pb2.OpFrame(paths=[path], block=session_pb2.SetBlock(keys=part, ints=[1] * len(part)))
            )
    children = [f"/many/c{number}" for number in range(CHILDREN)]
    counted = operations.Register(aggregates=[values_pb2.Aggregate(name="n", function=1, scope=1)])  # type: ignore[arg-type]
    ops = [session_pb2.Op(path=number, register=counted) for number in range(CHILDREN)]
    await session.send(session_pb2.OpFrame(paths=children, ops=ops))
    session.cancel()
    update = operations.Update(set=values_pb2.Value(json_value=BIG))
    await call(channel, "update", path="/", key="big", update=update)
    register = operations.Register(config_json=BIG, gates=[values_pb2.Gate(name="g")])
    assert not isinstance(await call(channel, "register", path="/big", register=register), Failure)
    await fill_spaces(channel)


async def fill_spaces(channel: grpc.aio.Channel) -> None:
    """All of a crowd in one cell; somebody in each cell of a square, and sixteen distances."""
    grid = space_pb2.Grid(width=64, height=64)
    near = [space_pb2.Proximity(name=f"p{number}", distance=3.0 + number / 4) for number in range(16)]
    session = await RawSession(channel, "fill-spaces").open()
    for path, proximities in (("/crowd", ()), ("/meetings", near)):
        space = space_pb2.Space(grid=grid, proximities=proximities)
        await call(channel, "register", path=path, register=operations.Register(space=space))
        spread = 0 if path == "/crowd" else 1
        block = session_pb2.SetBlock(keys=[f"k{number}" for number in range(OPS)], ints=[1] * OPS, dimensions=2)
        block.coordinates.extend(spread * at for number in range(OPS) for at in divmod(number, 64))
        await session.send(session_pb2.OpFrame(paths=[path], block=block))
    session.cancel()


async def longest_wait_cpu_s(channel: grpc.aio.Channel, server: psutil.Process, stopped: asyncio.Event) -> float:
    """Of one who reads a small thing again and again meanwhile."""
    longest = 0.0
    get = queries_pb2.Query(get=queries_pb2.Get())
    while not stopped.is_set():
        began = used_cpu_s(server)
        assert not isinstance(await call(channel, "query", path="/", query=get), Failure)
        longest = max(longest, used_cpu_s(server) - began)
        await asyncio.sleep(0.005)
    return longest


def used_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@pytest.mark.parametrize("name", FRAMES)
async def test_nobody_waits_long_for_a_small_request(tmp_path: Path, name: str) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            grpc.aio.insecure_channel(server.address) as channel,
            grpc.aio.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as other,
        ):
            await fill(channel)
            process = psutil.Process(server.pid)
            before = process.memory_info().rss
            stopped = asyncio.Event()
            waiting = asyncio.create_task(longest_wait_cpu_s(other, process, stopped), name="longest wait")
            session = await RawSession(channel, "hostile").open()
            async with asyncio.timeout(60):
                parts = await session.send(FRAMES[name]())
            stopped.set()
            assert await waiting < WAIT_CPU_S_MAX
            errors = [outcome.error for part in parts for outcome in part.outcomes if outcome.HasField("error")]
            assert {error.reason for error in errors} <= {*NOW_REFUSED, *FAILURES.get(name, ())}
            assert process.memory_info().rss - before < GROWTH_BYTES_MAX
            session.cancel()

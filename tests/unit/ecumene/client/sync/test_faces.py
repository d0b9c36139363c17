"""The blocking face: all of the asyncio SDK is there, and means the same."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import threading
import traceback
import weakref
from typing import Any

import ecumene.client
import pytest
from ecumene import sync
from ecumene.client.sync import faces

from tests.unit.ecumene.client.fake_server import FakeServer
from tests.unit.ecumene.client.sync.conftest import QUICK, reached

BLOCKING_NAMES = {"__aiter__": "__iter__", "__anext__": "__next__", "__aenter__": "__enter__", "__aexit__": "__exit__"}


def find_missing(inner: type, face: type) -> list[str]:
    """What the asyncio class can do and its face cannot, or not without a loop."""
    missing = []
    for name, member in inspect.getmembers_static(inner):
        is_public = name in BLOCKING_NAMES or not name.startswith("_")
        if not is_public or not (callable(member) or isinstance(member, property)):
            continue
        blocking = inspect.getattr_static(face, {**BLOCKING_NAMES, "aclose": "close"}.get(name, name), None)
        if blocking is None or inspect.iscoroutinefunction(blocking) or inspect.isasyncgenfunction(blocking):
            missing.append(f"{inner.__name__}.{name}")
    return missing


def list_loop_bound() -> list[type]:
    """Public classes with anything asynchronous, found without asking the faces."""
    found = []
    for name in ecumene.client.__all__:
        member = getattr(ecumene.client, name)
        if inspect.isclass(member) and not hasattr(member, "__await__"):
            source = inspect.getsource(member)
            if "async def" in source or "get_running_loop" in source:
                found.append(member)
    return found


def test_everything_of_the_asyncio_sdk_is_in_the_blocking_one() -> None:
    classes = list_loop_bound()
    assert {"World", "Environment", "FrameWriter", "Watch", "FrameWatch", "Worlds", "Transaction", "Listing"} <= {
        inner.__name__ for inner in classes
    }
    for inner in classes:
        face = getattr(sync, inner.__name__)
        assert issubclass(face, faces.Face)
        assert find_missing(inner, face) == []
        assert face.__doc__ == inner.__doc__
    assert set(ecumene.client.__all__) - set(sync.__all__) == {"Connecting", "Leasing"}, "what is only awaited"
    for name in sync.__all__:
        assert getattr(sync, name) is not None


def test_a_method_that_is_added_later_has_its_face_too() -> None:
    class Added:
        async def later(self) -> int:
            return 7

        async def __anext__(self) -> int:
            return 8

    face = faces.make_face(Added, __name__)
    try:
        assert find_missing(Added, face) == []
        assert find_missing(Added, faces.Face) == ["Added.__anext__", "Added.later"], "a check that can fail"
    finally:
        del faces.FACES[Added]


def test_a_generator_is_refused_since_it_cannot_be_read_at_once() -> None:
    class Generating:
        async def items(self) -> Any:
            yield 1

    with pytest.raises(TypeError, match=r"Generating\.items"):
        faces.make_face(Generating, __name__)


def test_values_handles_and_errors_are_the_same(world: sync.World) -> None:
    room = world.environment("/")
    assert isinstance(room, sync.Environment)
    assert room.path == "/"
    assert room.set("a", 1.0) == ecumene.client.Written(1, 1)
    with pytest.raises(ecumene.client.PreconditionFailedError) as caught:
        room.set("bad", 1.0)
    lines = "".join(traceback.format_exception(caught.value))
    assert 'room.set("bad", 1.0)' in lines, "the caller's line"
    assert "in set\n" in lines, "and where in the SDK"
    assert room.value("absent", 5) == 5
    assert world.revision == 1
    assert world.statistics().is_connected


def test_a_handle_says_what_it_stands_for(server: FakeServer, world: sync.World) -> None:
    assert repr(world) == f"<World {world.name} at {server.address}>"
    assert repr(world.environment("/room")) == f"<Environment /room of {world.name}>"
    assert repr(world.transaction().set("/", "a", 1)) == "<Transaction of 1 writes>"
    assert repr(world.subscription("mailer")) == f"<Subscription mailer of {world.name}>"
    assert repr(world.frames) == "<FrameWriter>"


def test_a_transaction_chains_and_commits(server: FakeServer, world: sync.World) -> None:
    transaction = world.transaction()
    assert transaction.require("/", "a", absent=True).set("/", "a", 1.0).increment("/", "b") is transaction
    assert len(transaction) == 2
    transaction.otherwise.set("/", "a", 2.0)
    assert world.transaction().otherwise is not transaction.otherwise


def test_frames_are_futures_of_threads(server: FakeServer, world: sync.World) -> None:
    future = world.frames.submit_block("/", ["a", "b"], [1.0, 2.0])
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(10).ok_count == 2
    assert world.frames.send_block("/", ["a"], [1.0], return_versions=True).versions == [2]
    frame = world.frame()
    frame.set("/", "c", 1.0)
    assert world.frames.send(frame).ok_count == 1


def test_a_watch_that_is_broken_off_ends_at_the_server(server: FakeServer, world: sync.World) -> None:
    room = world.environment("/")
    for number in range(6):
        room.set(f"k{number}", float(number))
    seen = []
    for event in room.watch(from_revision=1):
        seen.append((event.key, event.value))
        if event.key == "k3":
            break
    assert seen == [(f"k{number}", float(number)) for number in range(4)]
    reached(lambda: not server.streams[-1].cursors)
    assert "cancel" in server.streams[-1].kinds()


def test_a_watch_is_a_context_and_has_its_initial_state(server: FakeServer, world: sync.World) -> None:
    room = world.environment("/")
    room.set("a", 1.0)
    with room.watch(initial_state=True) as watch:
        assert [event.key for event in watch.initial_state()] == ["a"]
        assert watch.synced_revision == 1
        room.set("b", 2.0)
        assert next(watch).key == "b"
        assert watch.try_next() is None
    assert list(watch) == []
    reached(lambda: not server.streams[-1].cursors)


def test_eight_threads_share_a_connection(server: FakeServer, world: sync.World) -> None:
    room = world.environment("/")

    def write(name: str) -> list[int]:
        versions = [room.set(name, float(number)).version for number in range(50)]
        room.set("shared", 0.0)
        return versions

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(write, [f"t{number}" for number in range(8)]))
    assert answers == [list(range(1, 51))] * 8
    assert server.entries["shared"] == 8
    assert len(server.streams) == 1


async def test_it_works_where_a_loop_runs_already(server: FakeServer) -> None:
    asyncio.get_running_loop()
    with sync.connect(server.address, settings=QUICK) as world:
        assert world.environment("/").set("a", 1.0).revision == 1
    async with ecumene.connect(server.address, settings=QUICK) as beside:
        assert (await beside.environment("/").get("a")).version == 1


def test_internals_of_the_asyncio_sdk_stay_inside(world: sync.World) -> None:
    with pytest.raises(AttributeError, match="session"):
        world.session  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match="connect"):
        sync.Environment()


def test_closing_ends_threads_and_later_calls_say_so(server: FakeServer) -> None:
    world = sync.connect(server.address, settings=QUICK)
    room = world.environment("/")
    world.close()
    world.close()
    assert "ecumene sync" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ecumene.client.ClosedError):
        room.set("a", 1.0)


def test_a_connection_lives_as_long_as_anything_of_it(server: FakeServer) -> None:
    world = sync.connect(server.address, settings=QUICK)
    gone = weakref.ref(world)
    room = world.environment("/")
    del world
    gc.collect()
    assert gone() is None
    assert room.set("a", 1.0).revision == 1
    del room
    reached(lambda: "ecumene sync" not in {thread.name for thread in threading.enumerate()})


def test_connections_share_one_thread_and_outlive_each_other(server: FakeServer) -> None:
    first = sync.connect(server.address, settings=QUICK)
    second = sync.connect(server.address, settings=QUICK)
    assert [thread.name for thread in threading.enumerate()].count("ecumene sync") == 1
    first.close()
    assert second.environment("/").set("a", 1.0).revision == 1
    with pytest.raises(ecumene.client.ClosedError):
        first.environment("/").set("a", 1.0)
    second.close()


def test_what_cannot_be_reached_leaves_nothing_behind() -> None:
    with pytest.raises(ecumene.client.ConnectionFailedError):
        sync.connect("127.0.0.1:1", timeout_s=0.2, settings=QUICK)
    with pytest.raises(ecumene.client.ConnectionFailedError), sync.Worlds("127.0.0.1:1", QUICK, 0.2) as worlds:
        worlds.list()
    assert "ecumene sync" not in {thread.name for thread in threading.enumerate()}


def test_without_an_address_the_server_of_the_environment_is_meant(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECUMENE_SERVER", server.address)
    with sync.connect(settings=QUICK) as world:
        world.environment("/room").set("k", 1)
        assert server.address in repr(world)

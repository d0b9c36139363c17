"""Groups through the wire: sessions, calls, watches and Monitor show a group the same, and nothing of its sister's."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import operations_pb2 as ops
from env_api.v1 import queries_pb2, session_pb2, values_pb2

from env_server.model.environments import Access
from tests.promises.visible_world import GROUPS, PATHS, Granted, may_change, may_see
from tests.raw_client import SERVICE, Failure, RawSession, call, decode_error
from tests.services import ServerProcess

DENIED = "PERMISSION_DENIED"
GRANTS = [Granted("/b", "/a", Access.READ), Granted("/c/a", "*", Access.WRITE), Granted("/b/b", "/a", Access.WRITE)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("groups")) as running:
        yield running


@pytest.fixture
async def channel(server: ServerProcess) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        for path in PATHS[1:]:
            grants = [values_pb2.Grant(group=group, access=access) for at, group, access in GRANTS if at == path]  # type: ignore[arg-type]
            declared = ops.Register(if_absent=True, grants=grants)
            assert not isinstance(await call(channel, "register", path=path, register=declared), Failure)
        yield channel


class GroupSession(RawSession):
    """A session that says which groups it has."""

    async def open(self) -> RawSession:
        hello = session_pb2.Hello(client_id=self._client_id, groups=GROUPS)
        await self.write(session_pb2.SessionRequest(hello=hello).SerializeToString())
        self.welcome = (await self.read()).welcome
        return self


async def test_frames_and_calls_of_a_group_do_what_the_rules_say(channel: grpc.aio.Channel, seed: int) -> None:
    chance = random.Random(seed)
    session = await GroupSession(channel, f"rules-{seed}").open()
    for _ in range(30):
        asked = [
            (chance.randrange(len(GROUPS) + 1), chance.choice(PATHS), chance.random() < 0.5)
            for _ in range(chance.randrange(1, 9))
        ]
        update = ops.Update(set=values_pb2.Value(int_value=1))
        query = queries_pb2.Query(list_children=queries_pb2.ListChildren())
        rows = [
            session_pb2.Op(path=PATHS.index(path), key="k", update=update)
            if writes
            else session_pb2.Op(path=PATHS.index(path), query=query)
            for _, path, writes in asked
        ]
        frame = session_pb2.OpFrame(paths=PATHS, ops=rows, groups=[number for number, _, _ in asked])
        outcomes = {outcome.index: outcome for part in await session.send(frame) for outcome in part.outcomes}
        for index, (number, path, writes) in enumerate(asked):
            group = GROUPS[number - 1] if number else ""
            told = outcomes.get(index)
            check = may_change if writes else may_see
            if not group or not check(group, path, GRANTS):
                assert told is not None and decode_error(told.error).reason == DENIED, (group, path, writes)
            elif not writes:
                assert told is not None
                seen = [child.path for child in told.query.environments.environments]
                below = [child for child in PATHS[1:] if (child.rpartition("/")[0] or "/") == path]
                assert seen == [child for child in below if may_see(group, child, GRANTS)]
            if group:
                await check_call(channel, group, path, writes)
    session.cancel()


async def check_call(channel: grpc.aio.Channel, group: str, path: str, writes: bool) -> None:
    caller = service.Caller(group=group)
    if writes:
        update = ops.Update(set=values_pb2.Value(int_value=2))
        answer = await call(channel, "update", path=path, key="k", update=update, caller=caller)
        assert (isinstance(answer, Failure) and answer.reason == DENIED) != may_change(group, path, GRANTS)
    else:
        answer = await call(channel, "query", path=path, query=queries_pb2.Query(get=queries_pb2.Get()), caller=caller)
        assert (isinstance(answer, Failure) and answer.reason == DENIED) != may_see(group, path, GRANTS)


async def test_denied_comes_before_absent_and_looks_the_same(channel: grpc.aio.Channel) -> None:
    caller = service.Caller(group="/a")
    answers = [
        await call(channel, "query", path=path, key="k", query=queries_pb2.Query(get=queries_pb2.Get()), caller=caller)
        for path in ("/c/c", "/c/none", "/nowhere")
    ]
    assert {(answer.code, answer.reason) for answer in answers} == {(7, DENIED)}
    for path, answer in zip(("/c/c", "/c/none", "/nowhere"), answers, strict=True):
        assert answer.metadata == {"group": "/a", "path": path, "executed": "no"}


async def watch_events(session: RawSession, watch_id: int, until: str) -> tuple[list[str], Any]:
    """Paths told to a watch up to that of a last event, or how it ended."""
    told: list[str] = []
    while until not in told:
        response = await session.read()
        if response.HasField("watch_ended"):
            return told, decode_error(response.watch_ended.error)
        if response.HasField("events"):
            events = response.events
            told += [events.paths[place] for place in (events.path or [0] * events.count)]
    return told, None


async def test_a_watch_shows_the_view_of_its_start_and_ends_when_a_right_goes(channel: grpc.aio.Channel) -> None:
    session = await GroupSession(channel, "watcher").open()
    for watch_id, group in ((1, 1), (2, 0), (3, 9), (4, 1)):
        start = session_pb2.WatchStart(watch_id=watch_id, group=group)
        if watch_id == 4:
            start.filter.path_prefix = "/c/b"
        await session.write(session_pb2.SessionRequest(watch=start).SerializeToString())
    ended = [await session.read() for _ in range(3)]
    reasons = {one.watch_ended.watch_id: decode_error(one.watch_ended.error).reason for one in ended}
    assert reasons == {2: DENIED, 3: "INVALID_FIELD", 4: DENIED}

    update = ops.Update(set=values_pb2.Value(int_value=1))
    for path in [*PATHS, "/a"]:
        await call(channel, "update", path=path, key="w", update=update)
    told, error = await watch_events(session, 1, "/c/a")
    assert error is None
    more, _ = await watch_events(session, 1, "/a") if told[-1] != "/a" else ([], None)
    assert set(told + more) == {path for path in PATHS if may_see("/a", path, GRANTS)}

    taken = ops.Update(environment=ops.EnvironmentUpdate(remove_grants=["/a"]))
    assert not isinstance(await call(channel, "update", path="/b", update=taken), Failure)
    _, error = await watch_events(session, 1, "never")
    assert error.reason == DENIED
    given = ops.Update(
        environment=ops.EnvironmentUpdate(set_grants=[values_pb2.Grant(group="/a", access=values_pb2.ACCESS_READ)])
    )
    assert not isinstance(await call(channel, "update", path="/b", update=given), Failure)
    session.cancel()


def monitor(channel: grpc.aio.Channel, request: service.MonitorRequest) -> Any:
    method = channel.unary_stream(
        SERVICE + "Monitor", service.MonitorRequest.SerializeToString, service.MonitorResponse.FromString
    )
    return method(request)


async def test_monitor_takes_a_group_too(channel: grpc.aio.Channel) -> None:
    request = service.MonitorRequest(group="/a", from_revision=1)
    stream = channel.unary_stream(SERVICE + "Monitor", request.SerializeToString, service.MonitorResponse.FromString)(
        request
    )
    told: set[str] = set()
    while not told >= {"/a", "/b/b", "/c/a", "/"}:
        response = await stream.read()
        told |= {event.path for event in response.events}
    assert all(may_see("/a", path, GRANTS) for path in told)
    stream.cancel()
    denied = service.MonitorRequest(group="/a")
    denied.filter.path_prefix = "/c/c"
    refused = channel.unary_stream(SERVICE + "Monitor", denied.SerializeToString, service.MonitorResponse.FromString)(
        denied
    )
    assert await refused.code() is grpc.StatusCode.PERMISSION_DENIED

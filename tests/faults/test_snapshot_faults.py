"""Copies of worlds under faults: kills at every named point, damaged bytes, a full disk; the world goes on."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import grpc
import pytest
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import session_pb2, values_pb2
from env_api.v1 import world_service_pb2 as worlds_pb2

from env_server.diagnostics.failpoints import COPY_PLACES
from env_server.offline.verify import verify
from env_server.storage import copies, layout
from env_server.world_copies import SNAPSHOTS
from tests.faults.random_frames import make_frame
from tests.faults.replayed_state import read
from tests.faults.test_full_storage import small_disk, write
from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.services import ServerProcess

__all__ = ["small_disk"]

FRAMES = 40
KILLS = [
    *(("SnapshotWorld", place) for place in ("during_copy", "before_copy_rename", "after_copy_rename")),
    *(("ForkWorld", place) for place in ("during_copy", "before_copy_rename", "after_copy_rename")),
    *(("RestoreWorld", place) for place in ("before_copy_rename", "after_copy_rename")),
    ("DeleteSnapshot", "after_snapshot_doomed"),
]
"""What is asked for, and where on the way the server is killed."""
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 100)]


async def ask(channel: grpc.aio.Channel, verb: str, **fields: Any) -> Any:
    """One call of WorldService; the response, or how it failed."""
    request = getattr(worlds_pb2, f"{verb}Request")(**fields)
    response = getattr(worlds_pb2, f"{verb}Response")
    method = channel.unary_unary(f"/env_api.v1.WorldService/{verb}", request.SerializeToString, response.FromString)
    try:
        return await method(request, timeout=60)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def fill(channel: grpc.aio.Channel, seed: int, frames: int = FRAMES) -> None:
    rng = random.Random(seed)
    session = await RawSession(channel, f"filler-{seed}").open()
    for seq in range(1, frames + 1):
        await session.send(make_frame(rng, seq))
    session.cancel()


def worlds_in(listed: Any) -> dict[str, Any]:
    return {world.name: world for world in listed.worlds}


def names_of(snapshots: Any) -> list[str]:
    assert not snapshots.damaged
    return [snapshot.name for snapshot in snapshots.snapshots]


def test_every_place_is_killed_at() -> None:
    assert {place for _, place in KILLS} == COPY_PLACES


@pytest.mark.parametrize(("verb", "place"), KILLS)
async def test_a_kill_leaves_a_whole_copy_or_none(
    tmp_path: Path, place: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerProcess(tmp_path / "data")
    with server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            assert await write(channel, "before") == ""
            assert (await ask(channel, "SnapshotWorld", world="main", name="first")).snapshot.name == "first"
            assert await write(channel, "after") == ""
        assert server.stop() == 0
        monkeypatch.setenv("FAILPOINT", f"{place}:kill")
        server.start()
        asked = {
            "SnapshotWorld": {"world": "main", "name": "second"},
            "RestoreWorld": {"snapshot": "first", "name": "new"},
            "ForkWorld": {"world": "main", "name": "new"},
            "DeleteSnapshot": {"name": "first"},
        }[verb]
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            answer = await ask(channel, verb, **asked)
        assert isinstance(answer, Failure), "the place was not reached"
        server.kill()
        monkeypatch.setenv("FAILPOINT", "")
        server.start()
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            found = names_of(await ask(channel, "ListSnapshots"))
            worlds = worlds_in(await ask(channel, "ListWorlds"))
            for name in found:
                restored = await ask(channel, "RestoreWorld", snapshot=name, name=f"from-{name}")
                assert restored.world.restored_from.world == "main"
                assert restored.world.entries == {"first": 1, "second": 2}[name]
            if "new" in worlds:
                assert worlds["new"].entries == (1 if verb == "RestoreWorld" else 2)
                assert worlds["new"].history != worlds["main"].history
            assert worlds["main"].entries == 2
            assert await write(channel, "still here") == ""
        if verb == "DeleteSnapshot":
            assert "first" not in found
        elif place in ("during_copy", "before_copy_rename"):
            assert "second" not in found
            assert "new" not in worlds
        assert server.stop() == 0
    left = [path.name for path in [*(tmp_path / "data").iterdir(), *(tmp_path / "data" / SNAPSHOTS).iterdir()]]
    assert not [name for name in left if name.startswith((copies.UNFINISHED, ".deleted"))]


async def test_copies_equal_what_was_copied_while_the_world_goes_on(tmp_path: Path, seed: int) -> None:
    """Random worlds, snapshots taken under load; each is restored, and equals a fork of a fork of it."""
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            await fill(channel, seed)
            load = asyncio.create_task(fill(channel, seed + 1), name="load")
            taken = [(await ask(channel, "SnapshotWorld", world="main")).snapshot for _ in range(4)]
            await load
            assert len({snapshot.origin.revision for snapshot in taken}) > 1, "this shows nothing"
            entries = 0
            for number, snapshot in enumerate(taken):
                name = f"copy-{number}"
                made = (await ask(channel, "RestoreWorld", snapshot=snapshot.name, name=name)).world
                assert made.restored_from == snapshot.origin
                forked = (await ask(channel, "ForkWorld", world=name, name=f"fork-{number}")).world
                assert forked.restored_from.history == made.history
                restored = await read(channel, world=name)
                entries += sum(len(environment.entries) for environment in restored.values())
                assert await read(channel, world=f"fork-{number}") == restored
            assert entries > 20, "this shows nothing"
        assert server.stop() == 0
    reports = [verify(path) for path in (tmp_path / "data").iterdir() if path.name != SNAPSHOTS]
    reports += [verify(path) for path in (tmp_path / "data" / SNAPSHOTS).iterdir()]
    assert len(reports) == 1 + 4 + 4 + 4
    assert not [problem for report in reports for problem in report.problems.told]
    assert any(report.is_replayed for report in reports)


async def test_a_world_that_was_restored_is_another_one(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            assert await write(channel, "a") == ""
            session = await RawSession(channel, "watcher").open()
            history, revision = session.welcome.history, session.welcome.revision
            snapshot = (await ask(channel, "SnapshotWorld", world="main")).snapshot
            assert await write(channel, "b") == ""
            await ask(channel, "RestoreWorld", snapshot=snapshot.name, name="copy")
            stream: Any = channel.stream_stream("/env_api.v1.EnvironmentService/Session")()
            hello = session_pb2.Hello(client_id="watcher", world="copy")
            await stream.write(session_pb2.SessionRequest(hello=hello).SerializeToString())
            welcome = session_pb2.SessionResponse.FromString(await stream.read()).welcome
            assert welcome.history != history
            for watch_id, asked in enumerate((history, welcome.history), 1):
                watch = session_pb2.WatchStart(
                    watch_id=watch_id, from_revision=revision, history=asked, credit_events=100, credit_bytes=10**6
                )
                await stream.write(session_pb2.SessionRequest(watch=watch).SerializeToString())
            told = {}
            while len(told) < 2:
                response = session_pb2.SessionResponse.FromString(await stream.read())
                if response.HasField("watch_ended"):
                    told[response.watch_ended.watch_id] = response.watch_ended.error.reason
                elif response.HasField("events"):
                    told[response.events.watch_id] = list(response.events.keys)
            assert told == {1: 88, 2: ["a"]}, "another past is refused, its own is told"
            stream.cancel()
            session.cancel()


async def test_a_flipped_byte_is_refused_and_nothing_is_made(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            assert await write(channel, "a") == ""
            await ask(channel, "SnapshotWorld", world="main", name="s")
            data = tmp_path / "data" / SNAPSHOTS / "s" / layout.DATA_FILE
            content = bytearray(data.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            data.write_bytes(content)
            failure = await ask(channel, "RestoreWorld", snapshot="s", name="copy")
            assert (failure.reason, failure.code) == ("SNAPSHOT_DAMAGED", 15)
            assert failure.metadata["snapshot"] == "s"
            assert str(tmp_path) not in failure.message
            assert list(worlds_in(await ask(channel, "ListWorlds"))) == ["main"]
            assert await write(channel, "b") == ""
            (data.parent / "manifest.json").write_text(json.dumps({"manifest_format": 1}))
            listed = await ask(channel, "ListSnapshots")
            assert ([*listed.snapshots], [*listed.damaged]) == ([], ["s"])
        assert data.read_bytes() == content
        assert "Traceback" not in server.log_path.read_text()


async def test_names_are_made_once_however_many_ask(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            assert await write(channel, "a") == ""
            asked = [ask(channel, "SnapshotWorld", world="main", name="s") for _ in range(5)]
            answers = await asyncio.gather(*asked)
            assert sorted(getattr(answer, "reason", "") for answer in answers) == ["", *["SNAPSHOT_EXISTS"] * 4]
            verbs = [("ForkWorld", {"world": "main"}), ("RestoreWorld", {"snapshot": "s"}), ("CreateWorld", {})] * 3
            answers = await asyncio.gather(*(ask(channel, verb, name="new", **fields) for verb, fields in verbs))
            reasons = [getattr(answer, "reason", "") for answer in answers]
            assert reasons.count("") == 1
            assert set(reasons) <= {"", "WORLD_EXISTS", "RECOVERING"}
            for verb, fields, reason in (
                ("SnapshotWorld", {"world": "none"}, "WORLD_NOT_FOUND"),
                ("SnapshotWorld", {"world": "main", "name": "../x"}, "INVALID_FIELD"),
                ("RestoreWorld", {"snapshot": "none", "name": "x"}, "SNAPSHOT_NOT_FOUND"),
                ("RestoreWorld", {"snapshot": "s", "name": "X"}, "INVALID_FIELD"),
                ("ForkWorld", {"world": "none", "name": "x"}, "WORLD_NOT_FOUND"),
                ("CompactWorld", {"world": "main", "revision": 99}, "REVISION_IN_FUTURE"),
                ("DeleteWorld", {"name": "main"}, "PROTECTED"),
                ("DeleteSnapshot", {"name": "none"}, "SNAPSHOT_NOT_FOUND"),
            ):
                assert (await ask(channel, verb, **fields)).reason == reason, verb
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0


async def test_a_world_deleted_while_it_is_copied_takes_nothing_with_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            for number in range(10):
                await ask(channel, "CreateWorld", name="doomed")
                asked = [
                    ask(channel, "SnapshotWorld", world="doomed", name=f"s{number}"),
                    ask(channel, "ForkWorld", world="doomed", name=f"f{number}"),
                    ask(channel, "DeleteWorld", name="doomed"),
                ]
                reasons = {getattr(answer, "reason", "") for answer in await asyncio.gather(*asked)}
                assert reasons <= {"", "WORLD_NOT_FOUND"}
            listed = await ask(channel, "ListSnapshots")
            for snapshot in listed.snapshots:
                assert (
                    await ask(channel, "RestoreWorld", snapshot=snapshot.name, name=snapshot.name)
                ).world.entries == 0
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0


async def test_a_disk_without_room_refuses_the_copy_and_the_world_goes_on(small_disk: Path) -> None:
    with ServerProcess(small_disk / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            assert await write(channel, "a") == ""
            for verb, fields in (("SnapshotWorld", {"world": "main"}), ("ForkWorld", {"world": "main", "name": "f"})):
                failure = await ask(channel, verb, **fields)
                assert (failure.reason, failure.code) == ("STORAGE_QUOTA", 8)
            assert names_of(await ask(channel, "ListSnapshots")) == []
            assert await write(channel, "b") == ""
        assert server.stop() == 0
    assert not [path for path in (small_disk / "data").rglob("*") if copies.UNFINISHED in path.name]


async def test_storage_that_runs_low_is_told_once_and_compaction_makes_room(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--map-mib", "16") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            kept = was_low = 0
            while not (reason := await write(channel, f"k{kept}")):
                kept += 1
                was_low += worlds_in(await ask(channel, "ListWorlds"))["main"].storage_low
                assert kept < 400
            assert reason == "STORAGE_QUOTA"
            world = worlds_in(await ask(channel, "ListWorlds"))["main"]
            assert world.storage_low
            assert was_low < kept // 2, "it was not low from the start"
            assert server.log_path.read_text().count("of its storage") == 1
            for number in range(kept):
                answer = await call(
                    channel, "delete", path="/", key=f"k{number}", delete=operations.Delete(if_present=True)
                )
                assert not isinstance(answer, Failure), "deletions go on"
            compacted = await ask(channel, "CompactWorld", world="main", revision=0)
            assert compacted.first_retained_revision > world.revision, "compaction too"
            world = worlds_in(await ask(channel, "ListWorlds"))["main"]
            assert not world.storage_low
            assert world.storage_bytes < 2 << 20
            update = operations.Update(set=values_pb2.Value(string_value="x" * 100_000))
            assert not isinstance(await call(channel, "update", path="/", key="again", update=update), Failure)
        assert server.stop() == 0

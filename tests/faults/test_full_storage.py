"""Storage that runs full: writes are refused before a commit could fail, deletions go on, and room is found again."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import session_pb2, values_pb2, world_service_pb2

from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess

BIG = "x" * 100_000
PUMPS = 3
FRAMES = 40


async def write(channel: grpc.aio.Channel, key: str) -> str:
    """Sets a big value; the reason it was refused for, "" = it was not."""
    update = operations.Update(set=values_pb2.Value(string_value=BIG))
    answer = await call(channel, "update", path="/", key=key, update=update)
    return answer.reason if isinstance(answer, Failure) else ""


async def delete(channel: grpc.aio.Channel, key: str) -> str:
    answer = await call(channel, "delete", path="/", key=key, delete=operations.Delete())
    return answer.reason if isinstance(answer, Failure) else ""


async def pump(channel: grpc.aio.Channel, name: str) -> list[str]:
    """As many frames as the server allows in flight, of 3 MB each; why ops were refused."""
    session = await RawSession(channel, name).open()

    async def send() -> None:
        for seq in range(1, FRAMES + 1):
            keys = [f"{name}-{seq}-{index}" for index in range(4)]
            block = session_pb2.SetBlock(keys=keys, strings=[key + 7 * BIG for key in keys])
            frame = session_pb2.OpFrame(seq=seq, paths=["/"], block=block)
            await session.write(session_pb2.SessionRequest(frame=frame).SerializeToString())

    sending = asyncio.create_task(send(), name=f"pump {name}")
    reasons = []
    for _ in range(FRAMES):
        for part in await session.read_answer():
            reasons += [outcome.error.reason for outcome in part.outcomes if outcome.HasField("error")]
    await sending
    session.cancel()
    return reasons


async def test_a_world_that_is_only_overwritten_never_fills(tmp_path: Path) -> None:
    """The log is cut behind saving rounds, which begin by its bytes too, not only by the number of changes."""
    with ServerProcess(tmp_path / "data", "--map-mib", "16", "--log-mib", "1") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            for _ in range(60):
                assert set(await asyncio.gather(*(write(channel, f"k{number}") for number in range(8)))) == {""}
            listed = await channel.unary_unary("/env_api.v1.WorldService/ListWorlds")(b"", timeout=10)
            world = world_service_pb2.ListWorldsResponse.FromString(listed).worlds[0]
            assert world.first_retained_revision > 200
            assert world.storage_bytes < 4 << 20


async def test_a_log_larger_than_the_map_is_bounded_by_the_map(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--map-mib", "16") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            for number in range(400):
                assert await write(channel, f"k{number % 4}") == ""


@pytest.mark.parametrize("map_mib", [16, 96])
async def test_pipelined_frames_are_refused_before_a_commit_fails(tmp_path: Path, map_mib: int) -> None:
    """What is under way and what is still to be saved count, not only what is on the disk."""
    with ServerProcess(tmp_path / "data", "--map-mib", str(map_mib)) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            refused = await asyncio.gather(*(pump(channel, f"pump{number}") for number in range(PUMPS)))
            reason = operations.DESCRIPTOR.pool.FindEnumTypeByName("env_api.v1.ErrorReason").values_by_name
            assert {one for reasons in refused for one in reasons} == {reason["ERROR_REASON_STORAGE_QUOTA"].number}
        assert server.stop() == 0
        server.start()


async def test_transactions_that_delete_make_room_in_a_full_world(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--map-mib", "16") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            kept = 0
            while await write(channel, f"k{kept}") != "STORAGE_QUOTA":
                kept += 1
                assert kept < 400
            for first in range(0, kept, 10):
                keys = [f"k{number}" for number in range(first, min(first + 10, kept))]
                writes = [operations.Write(path="/", key=key, delete=operations.Delete()) for key in keys]
                answer = await call(channel, "transact", transact=operations.Transact(writes=writes))
                assert not isinstance(answer, Failure), answer
            while await write(channel, "again"):  # noqa: ASYNC110 - what was deleted goes out of the log by and by
                await asyncio.sleep(0.1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB; skips where none may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_full_disk_refuses_writes_and_lets_deletions_go_on(small_disk: Path) -> None:
    with ServerProcess(small_disk / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            kept = 0
            while not (reason := await write(channel, f"k{kept}")):
                kept += 1
                assert kept < 400
            assert reason == "STORAGE_QUOTA"
            assert kept > 50
            assert {await delete(channel, f"k{number}") for number in range(kept)} == {""}
        assert server.stop() == 0
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            assert await write(channel, "again") == ""

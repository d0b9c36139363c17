"""Worlds that are made and deleted in haste, and what else may lie in a data directory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from env_api.v1 import world_service_pb2

from tests.raw_client import Failure, decode_call_error
from tests.services import NotReadyError, ServerProcess

ROUNDS = 10
MAY_FAIL = {"WORLD_EXISTS", "WORLD_NOT_FOUND", "RECOVERING"}


async def ask(channel: grpc.aio.Channel, verb: str, **fields: Any) -> Failure | None:
    request = getattr(world_service_pb2, f"{verb}Request")(**fields).SerializeToString()
    try:
        await channel.unary_unary(f"/env_api.v1.WorldService/{verb}")(request, timeout=20)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)
    return None


async def test_a_name_is_made_and_deleted_by_many_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            for _ in range(ROUNDS):
                asked = [ask(channel, verb, name="x") for verb in ("CreateWorld", "DeleteWorld", "CreateWorld") * 3]
                failed = [failure for failure in await asyncio.gather(*asked) if failure is not None]
                assert {failure.reason for failure in failed} <= MAY_FAIL
                assert all(failure.retry_delay_ms for failure in failed if failure.reason == "RECOVERING")
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0
        server.start()


async def test_directories_that_are_no_worlds_stay_as_they_are(tmp_path: Path) -> None:
    foreign = [tmp_path / "data" / name for name in ("lost+found", "Backup of main", ".hidden")]
    for directory in foreign:
        directory.mkdir(parents=True)
    with ServerProcess(tmp_path / "data") as server:
        assert server.stop() == 0
    assert not any(list(directory.iterdir()) for directory in foreign)


async def test_a_second_server_on_the_directory_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        second = ServerProcess(tmp_path / "data")
        with pytest.raises(NotReadyError) as refused:
            second.start()
        assert refused.value.exit_code == 1
        assert f"is open in process {first.pid}" in refused.value.log
        async with grpc.aio.insecure_channel(first.address) as channel:
            assert await ask(channel, "CreateWorld", name="still-here") is None
        first.pause()  # a server that is stopped holds its directory all the same
        with pytest.raises(NotReadyError):
            second.start()
        first.resume()
        first.kill()
        with second:
            async with grpc.aio.insecure_channel(second.address) as channel:
                failure = await ask(channel, "CreateWorld", name="still-here")
                assert failure is not None
                assert failure.reason == "WORLD_EXISTS"

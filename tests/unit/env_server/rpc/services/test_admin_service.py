"""AdminService: what a server tells of itself is what it does."""

from __future__ import annotations

from dataclasses import fields, replace

import ecumene
import pytest

from env_server.behaviours.auction import Auction
from env_server.model.limits import MIB, Limits
from env_server.rpc.services.admin_service import find_version, list_limits
from env_server.storage.layout import FORMAT_VERSION
from env_server.testing.in_process import serve_in_process

LIMITS = Limits(map_bytes=64 * MIB, log_bytes_max=16 * MIB, leases_max=2, request_ids_max=77, request_id_age_s=5.5)


async def test_a_client_learns_what_it_can_run_into() -> None:
    async with serve_in_process(Auction, limits=LIMITS) as address, ecumene.connect(address) as world:
        info = await world.server_info()
        assert (info.version, info.storage_format) == (find_version(), FORMAT_VERSION)
        assert (info.durability, info.durability_ahead_ms) == ("fsync", 0)
        assert (info.request_ids_max, info.request_id_age_ms_max) == (77, 5500)
        assert (info.worlds_open, info.worlds) == (1, 1)
        async with world.lease(60), world.lease(60):
            with pytest.raises(ecumene.LeaseQuotaError) as refused:
                await world.lease(60)
            metadata = refused.value.metadata
            assert info.limits[metadata["limit"]] == int(metadata["max"])
        with pytest.raises(ecumene.LimitExceededError) as exceeded:
            await world.environment("/").set("k", "x" * (MIB + 1))
        assert info.limits[exceeded.value.metadata["limit"]] == int(exceeded.value.metadata["max"])
        async with ecumene.Worlds(address) as worlds:
            await worlds.create("second")
            assert (await worlds.server_info()).worlds == 2


def test_every_bound_is_told_and_as_whole_numbers() -> None:
    told = list_limits(replace(Limits(), page_idle_s=0.2))
    assert set(told) == {field.name for field in fields(Limits)} - {"quota_warn", "quota_refuse", "ahead_ms_max"}
    assert told["page_idle_s"] == 1
    assert all(type(value) is int and value > 0 for value in told.values())

"""A stream that has ended leaves nothing behind, whoever remembers why it ended."""

from __future__ import annotations

import gc
import logging

import ecumene
import grpc
import pytest

from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import FakeServer, reached


def count_channels() -> int:
    return sum(isinstance(found, grpc.aio.Channel) for found in gc.get_objects())


async def test_a_broken_stream_keeps_no_connection_even_while_its_error_is_kept(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ecumene.client")  # each record keeps the error that it tells of
    gc.collect()
    gc.disable()
    try:
        before = count_channels()
        async with ecumene.connect(server.address, settings=QUICK) as world:
            for number in range(1, 11):
                server.cut()
                await reached(lambda at_least=number: len(server.streams) > at_least)  # type: ignore[misc]
                await world.environment("/").set("a", 1.0)
            assert world.statistics().streams_opened == 11
            assert count_channels() <= before + 2
            assert len(caplog.records) >= 10
    finally:
        gc.enable()

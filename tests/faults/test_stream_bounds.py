"""Streams are bounded, and a place is free again however its stream ended."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import subscription_service_pb2 as subscriptions_pb2

from tests.raw_client import SERVICE, Failure, RawSession, decode_call_error
from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

STREAMS_MAX = 12
ROUNDS = 15
CONSUME = "/env_api.v1.SubscriptionService/Consume"


async def open_session(channel: grpc.aio.Channel, name: str) -> Any:
    return await RawSession(channel, name).open()


async def open_monitor(channel: grpc.aio.Channel, _name: str) -> Any:
    stream: Any = channel.unary_stream(SERVICE + "Monitor")(service.MonitorRequest(from_revision=1).SerializeToString())
    await stream.read()
    return stream


async def open_consumer(channel: grpc.aio.Channel, name: str) -> Any:
    request = subscriptions_pb2.ConsumeRequest(name="jobs", consumer=name)
    stream: Any = channel.unary_stream(CONSUME)(request.SerializeToString())
    await stream.read()
    return stream


KINDS = (open_session, open_monitor, open_consumer)


async def try_open(channel: grpc.aio.Channel, kind: Any, name: str) -> Any:
    """The stream, or how it was refused."""
    try:
        return await kind(channel, name)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def open_when_free(channel: grpc.aio.Channel, kind: Any, name: str) -> Any:
    """The server notices a moment later that a stream has gone."""
    async with asyncio.timeout(20):
        while isinstance(stream := await try_open(channel, kind, name), Failure):
            assert stream.reason == "STREAM_QUOTA", stream
            await asyncio.sleep(0.02)
    return stream


async def test_a_place_is_free_again_however_its_stream_ended(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with ServerProcess(tmp_path / "data", "--streams-max", str(STREAMS_MAX)) as server:
        async with grpc.aio.insecure_channel(server.address) as straight, TcpProxy(server.address) as proxy:
            request = subscriptions_pb2.CreateSubscriptionRequest(name="jobs", from_revision=1, partitions=64)
            await straight.unary_unary("/env_api.v1.SubscriptionService/CreateSubscription")(
                request.SerializeToString()
            )
            for number in range(ROUNDS):
                # A channel of its own: one that was cut waits before it connects again.
                async with grpc.aio.insecure_channel(
                    proxy.address, options=[("grpc.use_local_subchannel_pool", 1)]
                ) as cut:
                    streams = [
                        await open_when_free(chance.choice((straight, cut)), chance.choice(KINDS), f"c{number}-{place}")
                        for place in range(STREAMS_MAX)
                    ]
                    refused = await try_open(straight, chance.choice(KINDS), "one-more")
                    assert isinstance(refused, Failure)
                    assert refused.reason == "STREAM_QUOTA"
                    assert refused.code == 8
                    assert (refused.metadata["limit"], refused.metadata["max"]) == ("streams_max", str(STREAMS_MAX))
                    assert refused.retry_delay_ms > 0
                    chance.shuffle(streams)
                    if chance.random() < 0.5:
                        proxy.cut()
                    for stream in streams:
                        stream.cancel()
            last = [await open_when_free(straight, KINDS[place % 3], f"last-{place}") for place in range(STREAMS_MAX)]
            session = await try_open(straight, open_session, "last-0")
            assert not isinstance(session, Failure), "it takes the place of the session with its name"
            for stream in (*last, session):
                stream.cancel()
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0

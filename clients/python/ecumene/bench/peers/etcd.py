"""etcd as a peer of `ops_1k_keys`: durable puts of 64 clients, each with a connection and one put under way.

The client is bare: grpc.aio, as for the unary calls of our own, and messages put together by hand, so that it costs
less than any client library. `python -m ecumene.bench.peers.etcd ADDRESS CLIENTS OPS KEYS` prints one JSON line.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import grpc

from ecumene.bench.child import run_child, tell
from ecumene.bench.peers.servers import run_etcd
from ecumene.bench.processes import run_child as run_load

CLIENTS = 64
KEYS = 1000
TIMEOUT_S = 300.0
PUT_METHOD = "/etcdserverpb.KV/Put"
_OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


async def measure_etcd(ops: int) -> float:
    """Durable puts a second.

    Raises PeerAbsentError, BenchError.
    """
    async with run_etcd() as address, run_load(__name__, [address, *map(str, (CLIENTS, ops, KEYS))]) as load:
        result = await load.read(TIMEOUT_S)
    return float(result["ops"] / result["wall_s"])


def encode_put(key: str, value: str) -> bytes:
    """A PutRequest: field 1 is the key, field 2 the value; both shorter than 128 bytes."""
    name, content = key.encode(), value.encode()
    return bytes((0x0A, len(name))) + name + bytes((0x12, len(content))) + content


async def send_all(address: str, clients: int, ops: int, keys: int) -> tuple[int, float]:
    """Warm up, then let each client put one after the other; ops and seconds."""
    channels = [grpc.aio.insecure_channel(address, options=_OPTIONS) for _ in range(clients)]
    for channel in channels:
        await channel.channel_ready()

    async def send(client: int, count: int) -> None:
        put: Any = channels[client].unary_unary(PUT_METHOD)
        for index in range(count):
            await put(encode_put(f"a{(index * clients + client) % keys}", str(index * 0.5)))

    share = ops // clients
    await asyncio.gather(*(send(client, max(1, share // 10)) for client in range(clients)))
    start_s = time.perf_counter()
    await asyncio.gather(*(send(client, share) for client in range(clients)))
    wall_s = time.perf_counter() - start_s
    for channel in channels:
        await channel.close()
    return share * clients, wall_s


async def main(address: str, clients: int, ops: int, keys: int) -> None:
    """Tell the parent how long it took."""
    done, wall_s = await send_all(address, clients, ops, keys)
    tell({"ops": done, "wall_s": wall_s})


if __name__ == "__main__":
    run_child(main(sys.argv[1], *map(int, sys.argv[2:])))

"""SETs in a pipeline from Python: `python redis_load.py PORT CLIENT OPS KEYS BATCH BATCHES_IN_FLIGHT`.

`py`: redis-py, a pipeline of BATCH commands after the other, as its users write it. `hiredis`: commands packed by
hiredis and written to bare sockets, several batches unanswered: the most that Python can ask of a Redis.
Prints how long the commands took, after a warm-up of a tenth of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

CONNECTIONS = 8


def send_by_redis_py(port: int, keys: Sequence[str], values: Sequence[float], batch: int) -> None:
    """One pipeline after the other, each answered as a whole."""
    import redis

    client = redis.Redis(port=port)
    for start in range(0, len(keys), batch):
        pipeline = client.pipeline(transaction=False)
        for index in range(start, min(start + batch, len(keys))):
            pipeline.set(keys[index], values[index])
        if not all(pipeline.execute()):
            raise SystemExit("a SET was refused")
    client.close()


async def send_by_hiredis(port: int, keys: Sequence[str], values: Sequence[float], batch: int, in_flight: int) -> None:
    """Eight connections, each with several batches unanswered."""
    share = len(keys) // CONNECTIONS
    parts = [(keys[i * share : (i + 1) * share], values[i * share : (i + 1) * share]) for i in range(CONNECTIONS)]
    window = max(1, in_flight // CONNECTIONS)
    await asyncio.gather(*(_send_on_one(port, *part, batch, window) for part in parts))


async def _send_on_one(port: int, keys: Sequence[str], values: Sequence[float], batch: int, window: int) -> None:
    import hiredis

    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    room = asyncio.Semaphore(window)

    async def read() -> None:
        answers = hiredis.Reader()
        received = 0
        while received < len(keys):
            data = await reader.read(1 << 18)
            if not data:
                raise SystemExit("the server closed the connection")
            answers.feed(data)
            before = received
            while (answer := answers.gets()) is not False:
                if isinstance(answer, Exception):
                    raise SystemExit(f"a SET was refused: {answer}")
                received += 1
            for _ in range(received // batch - before // batch):
                room.release()

    reading = asyncio.create_task(read(), name="redis answers")
    for start in range(0, len(keys), batch):
        await room.acquire()
        end = min(start + batch, len(keys))
        packed = [hiredis.pack_command(("SET", keys[index], values[index])) for index in range(start, end)]
        writer.write(b"".join(packed))
        await writer.drain()
    await reading
    writer.close()


def main(port: int, client: str, ops: int, key_count: int, batch: int, in_flight: int) -> dict[str, Any]:
    """Warm up, send, measure."""
    keys = [f"a{index % key_count}" for index in range(ops)]
    values = [index * 0.5 for index in range(ops)]

    def send(count: int) -> None:
        if client == "py":
            send_by_redis_py(port, keys[:count], values, batch)
        else:
            asyncio.run(send_by_hiredis(port, keys[:count], values, batch, in_flight))

    send(max(batch * CONNECTIONS, ops // 10))
    sent = ops // CONNECTIONS * CONNECTIONS
    cpu_s, start_s = time.process_time(), time.perf_counter()
    send(sent)
    wall_s = time.perf_counter() - start_s
    return {"ops": sent, "wall_s": wall_s, "client_cpu_s": time.process_time() - cpu_s}


if __name__ == "__main__":
    port, client, *numbers = sys.argv[1:]
    sys.stdout.write(json.dumps(main(int(port), client, *map(int, numbers))) + "\n")

"""The life of an op in one world, in this order.

world        what a world is; an op enters by `execute`
execution    the pass over a frame's ops (with write_sets, transactions)
frame_runs   a frame's answer as it grows (with origins: who caused which row)
invoking     behaviour operations: admission, keys, slot (with invocations: from start to return)
commits      from applied to durable, and the queue of answers behind that (with saving)
recovery     a world from its log
"""

from env_server.pipeline.world import World, WorldDescription

__all__ = ["World", "WorldDescription"]

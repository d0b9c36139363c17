"""The life of an op in one world, in this order.

world        what a world is; an op enters by `execute`
frames       the pass over a frame's ops, and the parts of its answer
operations   operations of behaviours: keys, slot, method
reads        reads that take several loop steps
commits      from applied to durable, the queue of answers behind that, and what the log keeps
listeners    events that run code of behaviours
leasing, subscribing, initial_state      rooms with state of their own, joined to the tree and the history
own_changes  what a world changes by itself: lease_sweep, gate_timers (and clearing, which changes nothing)
recovery     a world from its log
"""

from env_server.pipeline.world import Welcomed, World, WorldDescription

__all__ = ["Welcomed", "World", "WorldDescription"]

"""What was stored of clocks and timers, as a server takes it up: before anybody serves the world, on any thread."""

from collections.abc import Mapping
from typing import NamedTuple

from env_server.state_tree.tree import Tree
from env_server.timeline import facts
from env_server.timeline.timeline import Timeline


class StoredTime(NamedTuple):
    """The clocks of a world that nobody serves, each standing where it was last."""

    timelines: dict[int, Timeline]
    """By the number of the environment that owns the clock, from the oldest one."""
    by_environment: dict[int, list[Timeline]]
    """The clocks on which an environment has timers, by its number."""
    last_order: int
    """The highest rank of a timer."""


def load_time(tree: Tree, clocks: Mapping[str, bytes], timers: Mapping[str, bytes]) -> StoredTime:
    """Reads the facts; those of environments and clocks that are gone are no more."""
    by_number = tree.nodes.by_number
    timelines: dict[int, Timeline] = {}
    for key, fact in sorted(clocks.items(), key=lambda item: int(item[0])):
        node = by_number.get(int(key))
        if node is not None and node.declaration.clock is not None:
            timelines[node.number] = Timeline(node.number, node.declaration.clock, facts.decode_clock(fact), 0)
    by_environment: dict[int, list[Timeline]] = {}
    last_order = 0
    for key, fact in timers.items():
        owner, name, timer = facts.decode_timer(key, fact)
        timeline = timelines.get(owner)
        if timeline is None or name[0] not in by_number:
            continue
        if name[0] not in timeline.timers:
            by_environment.setdefault(name[0], []).append(timeline)
        timeline.put(name, timer)
        last_order = max(last_order, timer.order)
    return StoredTime(timelines, by_environment, last_order)

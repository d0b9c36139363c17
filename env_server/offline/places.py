"""Whether everybody is somewhere where the space of the environment lets them be."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from env_server.model.errors import WorldError
from env_server.model.limits import Limits
from env_server.model.spaces import Position, Space
from env_server.offline.contents import Problems, State
from env_server.space.spaces import open_space
from env_server.storage import layout

_LIMITS: Final = Limits(space_nodes_max=1 << 32, space_edges_max=1 << 32)
"""A server that served the world may have had other limits than this process."""


def check_places(state: State, problems: Problems) -> None:
    """Every position is one of its space, in its one form, and no cell or node holds more than it may."""
    for node in state.tree.nodes.by_number.values():
        where = f"environment {node.number}"
        placed = {key: entry.position for key, entry in node.entries.items() if entry.position is not None}
        space = node.declaration.space
        if space is None:
            for key in placed:
                problems.add(layout.ENTRIES, f"{where}, key {key!r}", "has a position, and the environment no space")
            continue
        try:
            wrong = dict(_misplaced(space, placed))
        except WorldError as error:
            problems.add(layout.ENVIRONMENTS, where, f"its space is none: {error.message}")
            continue
        for key, problem in wrong.items():
            problems.add(layout.ENTRIES, f"{where}, key {key!r}", problem)
        for position, count in Counter(placed.values()).items():
            if 0 < space.capacity < count:
                problems.add(layout.ENTRIES, where, f"{count} are at {position}, and {space.capacity} may be")


def _misplaced(space: Space, placed: dict[str, Position]) -> Iterator[tuple[str, str]]:
    """Who is nowhere in the space, and why.

    Raises:
        WorldError: it is no space.
    """
    index = open_space(space.shape, _LIMITS)
    for key, position in placed.items():
        try:
            form = index.check(position)
        except WorldError as error:
            yield key, f"is at {position}: {error.message}"
            continue
        if form != position:
            yield key, f"is at {position} instead of {form}, which is the same"

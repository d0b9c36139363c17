"""Spaces of environments: accepted as a whole, opened, and replaced where regions or proximities change."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from env_server.model.environments import Declaration
from env_server.model.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound, Reason
from env_server.model.globs import compile_key_glob
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import EnvironmentUpdate
from env_server.model.ports import OpenSpace, SpaceIndex
from env_server.model.spaces import Disc, Graph, Proximity, Region, Space
from env_server.state_tree.borders import Borders
from env_server.state_tree.nodes import Node

_Named = TypeVar("_Named", Region, Proximity)
_BYTES_A_LOOK: Final = 8
"""Of a declaration: what it takes to accept so much of it is about what a look at an entry takes."""
Count = Callable[[int], None]
"""Told how much was looked at."""


class Spaces:
    """Opens the spaces of one tree. A tree that only looks at what is stored opens none."""

    def __init__(self, open_space: OpenSpace | None, limits: Limits) -> None:
        self._open = open_space
        self._limits = limits

    def open(self, space: Space, count: Count) -> tuple[SpaceIndex, Borders]:
        """The empty index of a space, once all of it is accepted, and its borders; `count` is told what it looks at.

        Raises:
            InvalidRequest: INVALID_POSITION, INVALID_FIELD.
            LimitExceeded: space_bytes_max, regions_max, proximities_max, or what the shape is bounded by.
        """
        check_count(sum(space.weight), "space_bytes_max", self._limits)
        if self._open is None:
            raise InvalidRequest(Reason.INVALID_FIELD, "space", "this world has none")
        count(space.weight.shape // _BYTES_A_LOOK)
        index = self._open(space.shape, self._limits)
        return index, self.accept(index, space, None, count)

    def accept(self, index: SpaceIndex, space: Space, before: Borders | None, count: Count) -> Borders:
        """The borders of a space that is open, and had others before; `count` is told what it looks at.

        Raises as `open`.
        """
        limits = self._limits
        count(space.weight.borders // _BYTES_A_LOOK)
        check_count(sum(space.weight), "space_bytes_max", limits)
        check_count(len(space.regions), "regions_max", limits)
        check_count(len(space.proximities), "proximities_max", limits)
        names = [region.name for region in space.regions] + [one.name for one in space.proximities]
        for name in names:
            check_segment(name, limits, Reason.INVALID_FIELD, "space.name")
        if len(set(names)) != len(names):
            problem = "regions and proximities must have different names"
            raise InvalidRequest(Reason.INVALID_FIELD, "space.name", problem)
        for region in space.regions:
            if isinstance(region.area, Disc) and not math.isfinite(region.area.radius):
                raise InvalidRequest(Reason.INVALID_FIELD, "regions.disc.radius", "must be finite")
        for proximity in space.proximities:
            _check_proximity(space, proximity, limits)
        try:
            # The last that can be wrong: what was looked at for a refusal has to be counted, too.
            areas = index.accept_areas([region.area for region in space.regions], before.areas if before else None)
        except LimitExceeded:
            count(limits.space_looks_max)
            raise
        count(areas.looked)
        return Borders(space, areas)

    def recover(self, node: Node) -> None:
        """Finds the index of an environment again, from what was stored."""
        space = node.declaration.space
        if space is None or self._open is None:
            return
        index = node.space = self._open(space.shape, self._limits)
        # Found out what they cover when somebody moves, who is charged for it.
        node.borders = Borders(space, index.areas([region.area for region in space.regions]))
        for key, entry in node.entries.items():
            if entry[6] is not None:
                index.put(key, entry[6])


def updated_space(node: Node, before: Declaration, asked: EnvironmentUpdate) -> Space | None:
    """The space that an environment has after an update.

    Raises:
        AlreadyExists: SPACE_EXISTS.
        NotFound: SPACE_NOT_FOUND, REGION_NOT_FOUND.
    """
    space = before.space
    if asked.space is not None:
        if space is not None:
            raise AlreadyExists(Reason.SPACE_EXISTS, path=node.path)
        space = asked.space
    changes = asked.set_regions, asked.remove_regions, asked.set_proximities, asked.remove_proximities
    if not any(changes):
        return space
    if space is None:
        raise NotFound(Reason.SPACE_NOT_FOUND, path=node.path)
    regions = _replaced(node, "region", space.regions, asked.set_regions, asked.remove_regions)
    proximities = _replaced(node, "proximity", space.proximities, asked.set_proximities, asked.remove_proximities)
    return replace(space, regions=regions, proximities=proximities)


def _replaced(
    node: Node, kind: str, before: tuple[_Named, ...], added: tuple[_Named, ...], removed: tuple[str, ...]
) -> tuple[_Named, ...]:
    parts = {part.name: part for part in before}
    for name in removed:
        if parts.pop(name, None) is None:
            raise NotFound(Reason.REGION_NOT_FOUND, kind, path=node.path, **{kind: name})
    parts.update((part.name, part) for part in added)
    return tuple(parts.values())


def _check_proximity(space: Space, proximity: Proximity, limits: Limits) -> None:
    if not math.isfinite(proximity.distance) or proximity.distance < 0:
        raise InvalidRequest(Reason.INVALID_FIELD, "proximities.distance", "must be finite and not negative")
    for glob in (proximity.key_glob, proximity.other_key_glob):
        size = len(glob.encode("utf-8", "surrogatepass"))
        if size > limits.path_bytes_max:
            raise LimitExceeded("path_bytes_max", limits.path_bytes_max, size)
        compile_key_glob(glob, "proximities.key_glob")
    if isinstance(space.shape, Graph) and space.shape.directed:
        problem = "a directed graph has none: who is near whom would depend on who moves"
        raise InvalidRequest(Reason.INVALID_FIELD, "space.proximities", problem)

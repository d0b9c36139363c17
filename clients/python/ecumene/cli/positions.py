"""Positions as people write them: 3,4, or the name of a node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ecumene.cli.failures import UsageError
from ecumene.cli.tables import show_count, to_document
from ecumene.client.environment import Environment
from ecumene.client.spaces import Box, Disc, Geo, Graph, Grid, NodeSet, Plane, Proximity, Space, as_position


def parse_position(text: str) -> tuple[float, ...]:
    """One or two numbers, by comma.

    Raises UsageError.
    """
    try:
        position = tuple(float(part) for part in text.strip("() ").split(","))
    except ValueError as error:
        raise _refuse(text) from error
    if len(position) > 2 or not all(map(math.isfinite, position)):
        raise _refuse(text)
    return position


def parse_box(text: str) -> Box:
    """Two corners, four numbers by comma.

    Raises UsageError.
    """
    try:
        x, y, across, along = (float(part) for part in text.strip("() ").split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} is no box", hint="write its corners: 0,0,3,4") from error
    return Box((x, y), (across, along))


def parse_place(text: str) -> tuple[float, ...] | str:
    """A position, or what may be the name of a node: `locate` tells.

    Raises UsageError.
    """
    try:
        return parse_position(text)
    except UsageError:
        if "," in text or not text.strip():
            raise
        return text


async def locate(environment: Environment, place: tuple[float, ...] | str) -> tuple[float, ...]:
    """The position of a node that is told by its name; others are what they are, and nobody is asked.

    Raises UsageError, EcumeneError.
    """
    if not isinstance(place, str):
        return place
    space = (await environment.describe()).space
    if not isinstance(space, Graph) or place not in space.names:
        raise _refuse(place)
    return (float(space.number(place)),)


def show_position(position: Sequence[float]) -> str | None:
    """A position in the form that `parse_position` reads; None = nowhere."""
    return ",".join(str(int(number)) if number == int(number) else repr(number) for number in position) or None


def show_place(position: Sequence[float], space: Space | None) -> str | None:
    """A position in words, if the space has some for it: nodes may have names."""
    shown = show_position(position)
    return f"{shown} ({space.name(position[0])})" if isinstance(space, Graph) and space.names and shown else shown


def describe_space(space: Space) -> str:
    """A space in one line."""
    if isinstance(space, Grid):
        words = [f"grid of {space.width:,} x {space.height:,}", space.neighbourhood.replace("_", "-")]
        words += ["torus"] if space.torus else []
    elif isinstance(space, Plane):
        bounds = [f"{bound:g}" for bound in (space.x_min, space.x_max, space.y_min, space.y_max)]
        words = [f"plane from {bounds[0]} to {bounds[1]} and from {bounds[2]} to {bounds[3]}"]
        words += ["torus"] if space.torus else []
    elif isinstance(space, Graph):
        words = [f"graph of {show_count(space.nodes, 'node')} and {show_count(len(space.edges), 'edge')}"]
        words += ["directed"] if space.directed else []
    else:
        assert isinstance(space, Geo)
        words = ["the earth (WGS84)"]
    if isinstance(space, Grid | Graph) and space.capacity:
        words.append(f"at most {space.capacity:,} in a {'cell' if isinstance(space, Grid) else 'node'}")
    return ", ".join(words)


def space_document(space: Space | None) -> dict[str, object] | None:
    """A space as plain JSON, under the name of its shape."""
    return None if space is None else {type(space).__name__.lower(): to_document(space)}


def describe_area(area: Box | Disc | NodeSet) -> str:
    """An area in one line."""
    if isinstance(area, Box):
        return f"box from {show_position(as_position(area.low))} to {show_position(as_position(area.high))}"
    if isinstance(area, Disc):
        return f"within {area.radius:g} of {show_position(as_position(area.centre))}"
    return show_count(len(area.nodes), "node")


def describe_proximity(proximity: Proximity) -> str:
    """A proximity in one line."""
    return f"within {proximity.distance:g}, {proximity.key_glob or '*'} and {proximity.other_key_glob or '*'}"


def _refuse(text: str) -> UsageError:
    return UsageError(f"{text!r} is no position", hint="write 3,4, or the number or the name of a node")

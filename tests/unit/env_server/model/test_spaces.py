"""What a space says of itself, whatever its shape."""

from __future__ import annotations

import pytest

from env_server.model.spaces import Geo, Graph, Grid, Plane, Shape, Space


@pytest.mark.parametrize(
    ("shape", "dimensions", "capacity"),
    [
        (Grid(3, 4), 2, 0),
        (Grid(3, 4, capacity=5), 2, 5),
        (Graph(3, capacity=7), 1, 7),
        (Plane(0.0, 0.0, 1.0, 1.0), 2, 0),
        (Geo(), 2, 0),
    ],
)
def test_only_cells_and_nodes_have_room_for_so_many(shape: Shape, dimensions: int, capacity: int) -> None:
    space = Space(shape)
    assert (space.dimensions, space.capacity) == (dimensions, capacity)

"""Every shape has an index."""

import subprocess
import sys

import pytest

from env_server.model.limits import Limits
from env_server.model.spaces import Geo, Graph, Grid, Plane, Shape
from env_server.space.spaces import open_space


@pytest.mark.parametrize(
    ("shape", "dimensions"), [(Grid(2, 2), 2), (Plane(0, 0, 1, 1), 2), (Geo(), 2), (Graph(2), 1)], ids=str
)
def test_every_shape_has_an_index(shape: Shape, dimensions: int) -> None:
    index = open_space(shape, Limits(space_looks_max=77))
    assert index.dimensions == dimensions
    assert (len(index), index.looked, index.looks_max) == (0, 0, 77)


def test_proj_is_not_loaded_before_there_is_an_earth() -> None:
    probe = "import sys, env_server.space.spaces; print('pyproj' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"

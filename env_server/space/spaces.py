"""From a shape to its index."""

from env_server.model.limits import Limits
from env_server.model.ports import SpaceIndex
from env_server.model.spaces import Geo, Graph, Grid, Plane, Shape
from env_server.space.graphs import GraphIndex
from env_server.space.grids import GridIndex
from env_server.space.planes import PlaneIndex


def open_space(shape: Shape, limits: Limits) -> SpaceIndex:
    """An index of a shape, with nobody in it.

    Raises:
        InvalidRequest: INVALID_FIELD: the shape is none.
        LimitExceeded: it is too large.
    """
    match shape:
        case Grid():
            return GridIndex(shape, limits)
        case Plane():
            return PlaneIndex(shape, limits)
        case Geo():
            # PROJ takes a tenth of a second to load, and few worlds are on the earth.
            from env_server.space.earth import EarthIndex

            return EarthIndex(limits)
        case Graph():
            return GraphIndex(shape, limits)

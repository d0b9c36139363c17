"""Agents are placed by the seed, each by itself, and in grids with a capacity where there is room."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from ecumene.client.spaces import Geo, Grid, Plane
from ecumene.sim.rounds.errors import ExperimentError
from ecumene.sim.worlds.placing import draw_places

ROWS = np.arange(2_000)


def test_places_follow_from_seed_environment_and_agent_alone() -> None:
    grid = Grid(30, 20)
    places = draw_places(grid, "/town", ROWS, 7)
    assert places[500:] == draw_places(grid, "/town", ROWS[500:], 7)
    assert places != draw_places(grid, "/town", ROWS, 8) != draw_places(grid, "/park", ROWS, 8)
    assert {column for column, _ in places} == set(range(30)) and {row for _, row in places} == set(range(20))


def test_a_capacity_is_kept_also_with_those_who_stand_there() -> None:
    grid = Grid(10, 5, capacity=2)
    taken = [(0.0, 0.0), (0.0, 0.0), (9.0, 4.0)]
    places = Counter([*draw_places(grid, "/town", np.arange(97), 1, taken), *taken])
    assert set(places.values()) == {2} and len(places) == 50
    with pytest.raises(ExperimentError, match="/town: its grid has room for 97 more, not for 98 agents"):
        draw_places(grid, "/town", np.arange(98), 1, taken)


def test_planes_and_the_earth_are_filled_evenly() -> None:
    x, y = np.array(draw_places(Plane(-5, 10, 5, 30), "/p", ROWS, 3)).T
    assert -5 <= x.min() < -4.9 and 4.9 < x.max() < 5 and 10 <= y.min() < 10.2 and 29.8 < y.max() < 30
    longitude, latitude = np.array(draw_places(Geo(), "/g", ROWS, 3)).T
    assert longitude.min() >= -180 and longitude.max() < 180
    # Half of the surface lies within 30 degrees of the equator.
    assert np.mean(np.abs(latitude) < 30) == pytest.approx(0.5, abs=0.05)

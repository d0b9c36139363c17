"""The tree follows the crowd: it divides, joins and looks at little."""

import gc
import math
import random

import pytest

from env_server.model.errors import LimitExceeded
from env_server.model.limits import Limits
from env_server.model.spaces import Grid, Plane
from env_server.space.cell_tree import LEAF_SPOTS_MAX
from env_server.space.planes import PlaneIndex
from env_server.space.spaces import open_space


def nearest_of_all(there: dict[str, tuple[float, float]], here: tuple[float, float], count: int) -> list:
    return sorted((math.hypot(here[0] - x, here[1] - y), key) for key, (x, y) in there.items())[:count]


@pytest.mark.parametrize("spread", [300.0, 1.0, 1e-6, 1e-13])
def test_a_query_looks_at_few_however_crowded_it_is(spread: float) -> None:
    rng = random.Random(3)
    index = open_space(Plane(0, 0, 1000, 1000), Limits())
    there = {}
    for number in range(5000):
        position = (
            min(1000.0, max(0.0, rng.gauss(500, spread))),
            min(1000.0, max(0.0, rng.gauss(500, spread))),
        )
        there[f"k{number}"] = position
        index.put(f"k{number}", position)
    # Below 2**-40 of the plane all are in one leaf.
    looks_max = 600 if spread > 1e-9 else 50_000
    for position in list(there.values())[:50]:
        near = index.nearest(position, 10)
        assert near == nearest_of_all(there, position, 10)
        assert index.looked < looks_max
        assert index.within(position, near[-1][0])[:10] == near
        assert index.looked < looks_max


def test_from_a_deserted_place_a_crowd_is_not_looked_at_as_a_whole() -> None:
    rng = random.Random(8)
    index = open_space(Plane(0, 0, 1000, 1000), Limits())
    there = {f"k{number}": (rng.uniform(900, 901), rng.uniform(900, 901)) for number in range(5000)}
    # The own leaf has enough, all of them farther away than the whole crowd.
    there |= {f"far{number}": (450.0 + number, 450.0) for number in range(12)}
    for key, position in there.items():
        index.put(key, position)
    for here in ((10.0, 10.0), (999.0, 1.0), (700.0, 700.0), (499.0, 499.0)):
        assert index.nearest(here, 10) == nearest_of_all(there, here, 10)
        assert index.looked < 800


def test_what_is_left_of_a_crowd_is_joined_again() -> None:
    rng = random.Random(2)
    index = PlaneIndex(Plane(0, 0, 1, 1), Limits())
    keys = [f"k{number}" for number in range(3000)]
    for key in keys:
        index.put(key, (rng.random(), rng.random()))
    index.within((0.5, 0.5), 2.0)
    assert index.looked < 3000 * 1.3
    for key in keys[:-40]:
        index.drop(key)
    index.within((0.5, 0.5), 2.0)
    assert index.looked < 40 + 40
    for key in keys:
        index.drop(key)
    index.within((0.5, 0.5), 2.0)
    assert index.looked <= 1


def test_spots_that_no_unit_tells_apart_are_still_different() -> None:
    index = open_space(Plane(0, 0, 1, 1), Limits())
    there = {f"k{number:03}": (number * 1e-300, 0.0) for number in range(LEAF_SPOTS_MAX * 3)}
    for key, position in there.items():
        index.put(key, position)
    assert index.nearest((0.0, 0.0), 3) == [(0.0, "k000"), (1e-300, "k001"), (2e-300, "k002")]
    for key in list(there)[:-1]:
        index.drop(key)
    assert [key for _, key in index.nearest((1.0, 1.0), 5)] == [list(there)[-1]]


def test_a_query_beyond_its_looks_is_refused_and_the_index_goes_on() -> None:
    index = open_space(Grid(1000, 1000), Limits(space_looks_max=500))
    for number in range(2000):
        index.put(f"k{number}", (float(number % 1000), float(number // 1000)))
    with pytest.raises(LimitExceeded) as caught:
        index.within((500.0, 0.0), 1000.0)
    assert 500 < int(caught.value.metadata["actual"]) < 700
    with pytest.raises(LimitExceeded):
        index.nearest((500.0, 0.0), 2000)
    assert len(index.nearest((500.0, 0.0), 3)) == 3
    index.put("k0", (999.0, 999.0))
    assert index.within((999.0, 999.0), 0.0) == [(0.0, "k0")]


def test_whoever_walks_in_small_steps_is_found_where_they_are(seed: int) -> None:
    rng = random.Random(seed)
    for index, step in ((open_space(Plane(0, 0, 64, 64), Limits()), 0.5), (open_space(Grid(64, 64), Limits()), 1.0)):
        there = {f"k{number}": (float(rng.randrange(64)), float(rng.randrange(64))) for number in range(400)}
        for key, position in there.items():
            index.put(key, position)
        for turn in range(4000):
            key = rng.choice(sorted(there))
            x, y = (min(63.0, max(0.0, number + rng.choice((-step, 0.0, step)))) for number in there[key])
            there[key] = (x, y)
            index.put(key, (x, y))
            if turn % 100 == 0:
                expected = sorted((index.distance((x, y), other), name) for name, other in there.items())
                assert index.nearest((x, y), 400) == expected
                assert index.within((x, y), 5.0) == [near for near in expected if near[0] <= 5.0]
        for key in there:
            index.drop(key)
        assert index.within((0.0, 0.0), math.inf) == []


@pytest.mark.parametrize("is_let_go", [False, True])
def test_nothing_of_a_tree_is_left_to_the_collector(is_let_go: bool) -> None:
    rng = random.Random(5)
    gc.collect()
    gc.disable()
    try:
        index = open_space(Plane(0, 0, 1, 1), Limits())
        # Divided deep, joined again, and with some that share a place.
        for number in range(1500):
            index.put(f"k{number}", (rng.random() ** 8, rng.random() ** 8))
            index.put(f"twin{number % 10}", (0.5, 0.5))
        for number in range(1300):
            index.drop(f"k{number}")
        index.nearest((0.5, 0.5), 12)
        while is_let_go and index.let_go(50):
            pass
        del index
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_whoever_shared_a_place_moves_on_after_it_was_divided_and_joined(seed: int) -> None:
    rng = random.Random(seed)
    index = open_space(Plane(0, 0, 64, 64, True), Limits())
    there: dict[str, tuple[float, float]] = {}
    places = [(rng.uniform(0, 63), rng.uniform(0, 63)) for _ in range(60)]
    for turn in range(6000):
        key = f"k{rng.randrange(300)}"
        if turn // 1000 % 2 and rng.random() < 0.6:
            index.drop(key)
            there.pop(key, None)
        else:
            there[key] = rng.choice(places) if rng.random() < 0.7 else (rng.uniform(0, 63), rng.uniform(0, 63))
            index.put(key, there[key])
        if turn % 100 == 0:
            here = rng.choice(places)
            expected = sorted((index.distance(here, other), name) for name, other in there.items())
            assert index.nearest(here, 12) == expected[:12]
            assert index.places() == [there[name] for _, name in expected[:12]]
            assert index.within(here, 9.0) == [near for near in expected if near[0] <= 9.0]
            assert index.places() == [there[name] for distance, name in expected if distance <= 9.0]

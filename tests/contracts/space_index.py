"""The interface of a space's index as a test: what every shape does, told to each by `check_space_index`.

A shape comes with a `Stand`: how to draw a position of it, and how far apart two are, by other means than the index's.
"""

import math
import random
from dataclasses import dataclass
from typing import Protocol

import pytest

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.ports import Near, OpenSpace
from env_server.model.spaces import Area, Box, Disc, Position, Shape

NO_POSITIONS: list[tuple[object, ...]] = [
    (),
    (1.0, 1.0, 1.0),
    (math.nan, 0.0),
    (0.0, math.inf),
    (-math.inf, 0.0),
    (True, False),
    ("1", "1"),
    (None, None),
    (1e300, 1e300),
    (-1e300, 0.0),
    (10**400, 0),
    (math.nan,),
    (math.inf,),
    (-1.0,),
    (True,),
    ("1",),
    (0.5,),
    (10**400,),
]


class Draw(Protocol):
    def __call__(self, rng: random.Random) -> Position: ...


class Measure(Protocol):
    def __call__(self, one: Position, other: Position) -> float: ...


class Inside(Protocol):
    def __call__(self, box: Box, position: Position) -> bool: ...


@dataclass
class Stand:
    """One shape, with oracles."""

    open: OpenSpace
    shape: Shape
    draw: Draw
    measure: Measure
    inside: Inside | None = None
    """None = the shape has no boxes."""
    exact: bool = True
    """Whether the oracle's distances are those of the index to the last bit; if not, to 10 nm."""
    directed: bool = False


def check_space_index(stand: Stand, seed: int, entries: int = 150) -> None:
    """Goes through the interface with one shape.

    Raises:
        AssertionError: the index breaks a promise.
    """
    rng = random.Random(seed)
    check_positions(stand, rng)
    check_an_empty_one(stand, rng)
    check_queries(stand, rng, entries)
    check_many_areas(stand, rng)
    check_letting_go(stand, rng)
    check_crowds(stand, rng)
    check_the_bound_of_looks(stand, rng)


def check_positions(stand: Stand, rng: random.Random) -> None:
    """Positions have one form; what is none is an error, in queries too, and never an empty answer."""
    index = stand.open(stand.shape, Limits())
    for _ in range(20):
        position = index.check(stand.draw(rng))
        assert index.check(position) == position
        assert len(position) == index.dimensions
        assert all(
            type(number) is float and math.copysign(1.0, number) == (1.0 if number >= 0 else -1.0)
            for number in position
        )
        assert index.distance(position, position) == 0.0
    wrong = [one for one in NO_POSITIONS if len(one) == index.dimensions or len(one) in (0, 3)]
    wrong.append((0.0,) * (3 - index.dimensions))
    for position in wrong:
        for ask in (
            lambda p: index.check(p),
            lambda p: index.within(p, 1.0),
            lambda p: index.nearest(p, 1),
            lambda p: index.accept_areas([Disc(p, 1.0)]),
        ):
            with pytest.raises(InvalidRequest) as caught:
                ask(position)
            assert caught.value.reason == Reason.INVALID_POSITION, position
    somewhere = index.check(stand.draw(rng))
    for radius in (-1.0, math.nan, -math.inf, True):
        for refused in (lambda r: index.within(somewhere, r), lambda r: index.accept_areas([Disc(somewhere, r)])):
            with pytest.raises(InvalidRequest) as caught:
                refused(radius)
            assert caught.value.reason == Reason.INVALID_FIELD
    for count in (0, -1, True, 1.5):
        with pytest.raises(InvalidRequest):
            index.nearest(somewhere, count)  # type: ignore[arg-type]


def check_an_empty_one(stand: Stand, rng: random.Random) -> None:
    """Nobody is nowhere, and nothing is an error about it."""
    index = stand.open(stand.shape, Limits())
    somewhere = index.check(stand.draw(rng))
    assert len(index) == 0
    assert index.nearest(somewhere, 5) == []
    assert index.within(somewhere, math.inf) == []
    index.drop("nobody")
    index.put("a", somewhere)
    index.put("a", somewhere)
    assert len(index) == 1
    assert index.nearest(somewhere, 5) == [(0.0, "a")]
    assert index.within(somewhere, 0.0) == [(0.0, "a")]
    apart = index.apart()
    apart.put("b", somewhere)
    assert apart.nearest(somewhere, 5) == [(0.0, "b")] and index.nearest(somewhere, 5) == [(0.0, "a")]
    index.drop("a")
    index.drop("a")
    assert len(index) == 0
    assert index.nearest(somewhere, 5) == []


def check_queries(stand: Stand, rng: random.Random, entries: int) -> None:
    """Whatever moves, every query tells what a look at all of them tells."""
    index = stand.open(stand.shape, Limits())
    there: dict[str, Position] = {}
    for turn in range(entries * 3):
        key = f"k{rng.randrange(entries)}"
        if rng.random() < 0.15 + 0.5 * (turn > entries * 2):
            index.drop(key)
            there.pop(key, None)
        else:
            near = rng.choice(list(there.values())) if there and rng.random() < 0.2 else index.check(stand.draw(rng))
            index.put(key, near)
            there[key] = near
        assert len(index) == len(there)
        if turn % 5 == 0:
            check_one_query(stand, index, there, rng)
    for key in list(there):
        index.drop(key)
    assert len(index) == 0
    assert index.within(index.check(stand.draw(rng)), math.inf) == []


def check_letting_go(stand: Stand, rng: random.Random) -> None:
    """It takes as many steps as it holds things, and comes to an end."""
    index = stand.open(stand.shape, Limits())
    for number in range(300):
        index.put(f"k{number}", index.check(stand.draw(rng)))
    steps = 0
    while freed := index.let_go(20):
        assert freed <= 60
        steps += 1
    assert 15 <= steps <= 100


def check_one_query(stand: Stand, index, there: dict[str, Position], rng: random.Random) -> None:
    here = rng.choice(list(there.values())) if there and rng.random() < 0.5 else index.check(stand.draw(rng))
    expected = sorted((stand.measure(here, position), key) for key, position in there.items())
    reached = [near for near in expected if near[0] < math.inf]
    radius = rng.choice([0.0, math.inf, *(near[0] for near in reached[:20]), rng.choice(reached or [(0.0, "")])[0]])
    if not stand.exact:
        radius *= 1 + 1e-9
    assert_same(stand, index.within(here, radius), [near for near in reached if near[0] <= radius])
    count = rng.choice([1, 2, 3, 10, len(there) + 1])
    assert_same(stand, index.nearest(here, count), reached[:count])
    for key, position in rng.sample(sorted(there.items()), min(5, len(there))):
        distance = index.distance(here, position)
        assert_same(stand, [(distance, key)], [(stand.measure(here, position), key)])
        assert stand.directed or index.distance(position, here) == distance
        disc = Disc(here, distance)
        # What no way leads to lies in no disc, however large.
        assert holds(index, disc, position) == (distance < math.inf)
        assert distance in (0.0, math.inf) or not holds(index, Disc(here, math.nextafter(distance, 0)), position)
    if stand.inside is not None:
        box = Box(*(stand.draw(rng) for _ in "lh"))
        try:
            index.accept_areas([box])
        except InvalidRequest:
            return
        assert index.in_box(box) == sorted(key for key, position in there.items() if stand.inside(box, position))
        for position in there.values():
            assert holds(index, box, position) == stand.inside(box, position)


def assert_same(stand: Stand, told: list[Near], expected: list[Near]) -> None:
    """The same entries at the same distances, in order."""
    if stand.exact:
        assert told == expected
        return
    assert told == sorted(told)
    assert [near[0] for near in told] == pytest.approx([near[0] for near in expected], rel=1e-12, abs=1e-8)
    if len({round(near[0], 6) for near in expected}) == len(expected):
        assert [near[1] for near in told] == [near[1] for near in expected]


def check_many_areas(stand: Stand, rng: random.Random) -> None:
    """Of many areas those are told, in their order, that each by itself contains the position."""
    index = stand.open(stand.shape, Limits())
    places = [index.check(stand.draw(rng)) for _ in range(60)]
    areas: list[Area] = []
    for _ in range(rng.choice([1, 3, 200])):
        centre = rng.choice([*places, index.check(stand.draw(rng))])
        radius = rng.choice([0.0, math.inf, index.distance(centre, rng.choice(places))])
        areas.append(Disc(centre, radius))
        if stand.inside is not None:
            corners = [stand.draw(rng) if rng.random() < 0.5 else rng.choice(places) for _ in "lh"]
            areas.append(Box(corners[0], corners[1]))
    accepted = [area for area in areas if is_accepted(index, area)]
    found, again = index.accept_areas(accepted), stand.open(stand.shape, Limits()).areas(accepted)
    assert not again.is_ready and again.looked == 0
    for position in places:
        told = [*found.at(position)]
        assert told == [number for number, area in enumerate(accepted) if holds(index, area, position)]
        assert [*found.at(position)] == [*again.at(position)] == told
    assert found.is_ready and again.is_ready
    looked = found.looked, again.looked
    known = index.accept_areas(accepted, found)
    assert [*map(known.at, places)] == [*map(found.at, places)] == [*map(again.at, places)]
    assert (found.looked, again.looked) == looked and known.looked <= found.looked


def holds(index, area: Area, position: Position) -> bool:
    """Whether an area, by itself, contains a position."""
    return bool(index.areas([area]).at(position))


def is_accepted(index, area: Area) -> bool:
    try:
        index.accept_areas([area])
    except InvalidRequest:
        return False
    return True


def check_crowds(stand: Stand, rng: random.Random) -> None:
    """Many at one place are told in key order, however they came."""
    index = stand.open(stand.shape, Limits())
    place = index.check(stand.draw(rng))
    keys = [f"k{number:04}" for number in range(300)]
    for key in rng.sample(keys, len(keys)):
        index.put(key, place)
    assert index.within(place, 0.0) == [(0.0, key) for key in keys]
    assert index.nearest(place, 7) == [(0.0, key) for key in keys[:7]]
    for key in rng.sample(keys[7:], 290):
        index.drop(key)
    assert len(index.within(place, 0.0)) == 10
    assert index.nearest(place, 7) == [(0.0, key) for key in keys[:7]]


def check_the_bound_of_looks(stand: Stand, rng: random.Random) -> None:
    """What a query looks at is counted, and bounded; moves are neither."""
    index = stand.open(stand.shape, Limits(space_looks_max=280))
    here = index.check(stand.draw(rng))
    index.put("a", here)
    index.within(here, 0.0)
    assert 0 < index.looked <= 280
    for number in range(300):
        index.put(f"k{number}", here)
    for ask in (lambda: index.within(here, math.inf), lambda: index.nearest(here, 301)):
        with pytest.raises(LimitExceeded) as caught:
            ask()
        assert caught.value.metadata["limit"] == "space_looks_max"
    assert len(index.nearest(here, 5)) == 5
    index.looks_max = 10_000
    assert len(index.within(here, math.inf)) == 301

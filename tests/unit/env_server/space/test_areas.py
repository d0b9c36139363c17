"""Many areas: those that hold a position are found, and few others are asked."""

from __future__ import annotations

import random

from env_server.model.spaces import Area, Box, Disc, NodeSet, Position
from env_server.space.areas import Covered, FlatAreas, NodeAreas
from env_server.space.cell_tree import Window


def contains(area: Area, position: Position) -> bool:
    assert isinstance(area, Box)
    return all(low <= at <= high for low, at, high in zip(area.low, position, area.high, strict=True))


def windows_of(box: Area) -> list[Window]:
    assert isinstance(box, Box)
    return [((box.low[0], box.high[0]), (box.low[1], box.high[1]))]


def test_of_a_thousand_few_are_asked_wherever_they_lie(seed: int) -> None:
    chance = random.Random(seed)
    for spread in (1000.0, 1.0):  # all over the place, and all in one corner of it
        corners = [(chance.uniform(0, spread), chance.uniform(0, spread)) for _ in range(1000)]
        boxes = [Box((x, y), (x + spread / 50, y + spread / 50)) for x, y in corners]
        asked = 0

        def count(area: Area, position: Position) -> bool:
            nonlocal asked
            asked += 1
            return contains(area, position)

        areas = FlatAreas(boxes, windows_of, count)
        places = [(chance.uniform(0, spread), chance.uniform(0, spread)) for _ in range(500)]
        places += [box.low for box in boxes[:50]] + [box.high for box in boxes[:50]] + [(-1.0, 5.0), (2000.0, 2000.0)]
        for position in places:
            expected = [number for number, box in enumerate(boxes) if contains(box, position)]
            assert areas.at(position) == expected
        assert asked < 5 * len(places)


def test_of_none_there_is_none() -> None:
    assert FlatAreas([], windows_of, contains).at((1.0, 1.0)) == []


def test_it_is_known_when_they_have_been_looked_at() -> None:
    areas = FlatAreas([Box((0.0, 0.0), (1.0, 1.0))] * 3, windows_of, contains)
    assert (areas.is_ready, areas.looked) == (False, 0)
    assert areas.at((1.0, 1.0)) == [0, 1, 2]
    assert (areas.is_ready, areas.looked) == (True, 3)


def test_a_disc_of_nodes_is_walked_once() -> None:
    walked = []

    def cover(disc: Disc) -> Covered:
        walked.append(disc)
        return Covered([int(disc.centre[0]), int(disc.centre[0]) + 1], 5)

    known = Disc((0.0,), 1.0)
    areas = NodeAreas(
        [Disc((1.0,), 1.0), known, NodeSet(frozenset((2, 7)))], cover, {known: Covered([0, 1], 99)}, looked=1
    )
    assert [[*areas.at((node,))] for node in (0.0, 1.0, 2.0, 3.0, 7.0)] == [[1], [0, 1], [0, 2], [], [2]]
    assert walked == [Disc((1.0,), 1.0)]
    assert areas.looked == 1 + 5 + 3 * 2

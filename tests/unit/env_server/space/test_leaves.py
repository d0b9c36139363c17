"""Leaves: columns in step with who is there."""

import math
import random

from env_server.space.leaves import Leaf, bound_of, distance_of


def test_columns_crowds_and_spots_stay_in_step() -> None:
    rng = random.Random(4)
    leaf = Leaf(None, 0, 3, (0.0, 0.0), (4.0, 4.0))
    there: dict[tuple[float, ...], list[str]] = {}
    for turn in range(2000):
        spot = (float(rng.randrange(4)), float(rng.randrange(4)), 7.5)
        key = f"k{turn}"
        choice = rng.random()
        if choice < 0.3 and there:
            before = rng.choice(sorted(there))
            moves = len(there[before]) == 1 and spot not in there
            assert leaf.move(before, spot) == moves
            if moves:
                there[spot] = there.pop(before)
        elif choice < 0.6:
            assert leaf.put(key, spot) == (spot not in there)
            there.setdefault(spot, []).append(key)
        elif spot in there:
            key = rng.choice(there[spot])
            there[spot].remove(key)
            assert leaf.drop(key, spot) == (not there[spot])
            if not there[spot]:
                del there[spot]
        assert len(leaf) == len(there)
        told = dict(zip(zip(*leaf.columns, strict=True), leaf.crowds, strict=True))
        assert told == dict(leaf.spots())
        expected = {spot: sorted(keys) if len(keys) > 1 else keys[0] for spot, keys in there.items()}
        assert told == expected
        assert leaf.crowd(spot) == expected.get(spot, [])
        assert leaf.shared == sum(len(keys) > 1 for keys in there.values())


def test_a_bound_counts_every_key_of_a_crowd() -> None:
    leaf = Leaf(None, 0, 2, (0.0, 0.0), (4.0, 4.0))
    for spot, key in (((3.0, 0.0), "c"), ((1.0, 0.0), "a"), ((2.0, 0.0), "d"), ((1.0, 0.0), "b")):
        leaf.put(key, spot)
    found = sorted(((x, row, leaf) for x, _, row in leaf.rows()), key=distance_of)
    assert [bound_of(found, count) for count in (1, 2, 3, 4, 5)] == [1.0, 1.0, 2.0, 3.0, math.inf]
    assert bound_of([], 1) == math.inf

"""The ring of groups."""

from __future__ import annotations

import random

from env_server.events.ring import Ring
from env_server.model.changes import Changes


def make(base: int, last: int, size: int = 1) -> Changes:
    return Changes(number=0, base_revision=base, last_revision=last, size_bytes=size)


def test_a_revision_is_found_in_the_group_that_holds_it() -> None:
    ring = Ring(100)
    for base, last in ((10, 12), (12, 13), (13, 20)):
        ring.append(make(base, last))
    assert [ring.find(revision) for revision in (10, 11, 12, 13, 14, 20, 21)] == [None, 0, 0, 1, 2, 2, 3]


def test_an_empty_ring_holds_nothing() -> None:
    assert Ring(100).find(1) is None


def test_the_newest_group_is_kept_even_beyond_the_bound() -> None:
    ring = Ring(10)
    first = ring.append(make(0, 1, 5))
    second = ring.append(make(1, 2, 500))
    assert ring.get(first) is None
    assert ring.get(second) is not None
    assert ring.size_bytes == 500


def test_positions_stay_true_while_old_groups_go(seed: int) -> None:
    chance = random.Random(seed)
    ring = Ring(300)
    groups: list[Changes] = []
    for _ in range(5000):
        base = groups[-1].last_revision if groups else 0
        groups.append(make(base, base + chance.randint(1, 3), chance.randint(1, 9)))
        assert ring.append(groups[-1]) == len(groups) - 1
        assert ring.size_bytes == sum(group.size_bytes for group in groups[ring.first :]) <= 300
        position = chance.randrange(max(0, len(groups) - 400), len(groups))
        assert ring.get(position) is (groups[position] if position >= ring.first else None)
        found = ring.find(groups[position].last_revision)
        assert found == (position if position >= ring.first else None)

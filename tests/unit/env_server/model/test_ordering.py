"""Sorting in pieces: the same order as in one piece, at most so many names at a time."""

import random
from collections.abc import Iterator

import pytest

from env_server.model.ordering import in_order, in_slices


@pytest.mark.parametrize("count", [0, 1, 2048, 2049, 20_000])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_names_come_in_order_whatever_order_they_are_in(count: int, is_sorted: bool, seed: int) -> None:
    names = [f"{index:08}" for index in range(count)]
    if not is_sorted:
        random.Random(seed).shuffle(names)
    assert [name for name in in_order(dict.fromkeys(names)) if name is not None] == sorted(names)


def test_a_slice_is_as_large_as_is_asked_when_it_is_made(seed: int) -> None:
    names = [f"{index:08}" for index in range(30_000)]
    random.Random(seed).shuffle(names)
    asked = 100
    slices = in_slices(names, lambda: asked)
    sizes: list[int] = []
    found: list[str] = []
    for part in slices:
        sizes.append(len(part))
        found += part
        if len(found) >= 1000:
            asked = 7000
    assert found == sorted(names)
    assert [size for size in sizes if size][:12] == [100] * 10 + [7000] * 2


def test_small_slices_come_with_little_sorting_at_a_time_and_large_ones_with_much() -> None:
    names = [str(index) for index in range(100_000)]

    def count_empty(slices: Iterator[list[str]]) -> int:
        return sum(not part for part in slices)

    assert count_empty(in_slices(names, lambda: 256)) == 49
    assert count_empty(in_slices(names, lambda: 8192)) == 3

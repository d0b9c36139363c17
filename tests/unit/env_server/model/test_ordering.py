"""Sorting in pieces: the same order as in one piece, at most so many names at a time."""

import random
from collections.abc import Callable, Iterator

import pytest

from env_server.model.ordering import in_order, in_slices

ORDERS: dict[str, Callable[[list[str], int], list[str]]] = {
    "sorted": lambda names, seed: names,
    "backwards": lambda names, seed: names[::-1],
    "shuffled": lambda names, seed: random.Random(seed).sample(names, len(names)),
    # As the agents of several groups report: each group in its order, some of one, then some of another.
    "woven": lambda names, seed: [
        name
        for start in range(0, len(names), 7000)
        for group in range(7)
        for name in names[start + group : start + 7000 : 7]
    ],
    "heaped": lambda names, seed: sorted(names, key=lambda name: name[::-1]),
}


@pytest.mark.parametrize("count", [0, 1, 2048, 2049, 20_000, 100_001])
@pytest.mark.parametrize("order", ORDERS)
def test_names_come_in_order_whatever_order_they_are_in(count: int, order: str, seed: int) -> None:
    names = [f"{index:08}" for index in range(count)]
    given = ORDERS[order](names, seed)
    assert [name for name in in_order(dict.fromkeys(given)) if name is not None] == names
    assert [name for part in in_slices(given, lambda: 300) for name in part] == names


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

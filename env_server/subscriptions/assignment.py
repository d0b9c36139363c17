"""Who has which partitions: evenly, and nothing moves that need not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N")


def plan_assignment(partitions: int, held: Mapping[N, Sequence[int]]) -> dict[N, tuple[int, ...]]:
    """Gives every partition to one of the consumers, which hold some already; no two of them hold the same.

    Their shares differ by at most one. No plan with even shares takes fewer partitions away from those who hold them.
    Consumers beyond the number of partitions get none.
    """
    # Those who hold most keep the larger shares; among equals, who came first.
    order = sorted(held, key=lambda name: -len(held[name]))
    share, larger = divmod(partitions, len(held))
    sizes = {name: share + (rank < larger) for rank, name in enumerate(order)}
    kept = {name: list(held[name])[: sizes[name]] for name in held}
    taken = {partition for mine in kept.values() for partition in mine}
    free = iter([partition for partition in range(partitions) if partition not in taken])
    return {name: tuple(sorted([*mine, *_take(free, sizes[name] - len(mine))])) for name, mine in kept.items()}


def _take(free: Iterator[int], count: int) -> list[int]:
    return [next(free) for _ in range(count)]

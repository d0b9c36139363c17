"""Sorting many names without keeping the world waiting: `list.sort` of 250,000 of them takes 0.2 s in one piece.

Runs of names are sorted one by one. Then blocks are taken off the front of all runs at once: each up to a name that is
known, from samples of the runs, to lie about a block further on. A block consists of pieces that are sorted already;
`list.sort` merges them in much less time than a heap would take to hand out one name after the other.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from itertools import chain, islice, pairwise

_RUN_NAMES = 2048
"""Sorted in one piece, in about 1 ms; a block has about as many."""
_SAMPLED = 32
"""Every so manieth name of a run is a sample."""
_SORTED_FOR_ONE = 4
"""Names that are sorted in the time in which one would be handed out and saved, roughly."""


def in_order(names: Collection[str]) -> Iterator[str | None]:
    """The names in order. None = a piece of the sorting was done: let others have a turn, then go on.

    Names that come in order, as agents' ids often do, cost next to nothing.
    """
    for block in _blocks(names):
        if block:
            yield from block
        else:
            yield None


def in_slices(names: Collection[str], size: Callable[[], int]) -> Iterator[list[str]]:
    """The names in order, `size()` at a time; empty slices while they are sorted, each as much work as a full one."""
    waiting = 0
    ready: list[str] = []
    for block in _blocks(names):
        if block:
            ready = ready + block if ready else block
            start = 0
            while len(ready) - start >= (count := size()):
                yield ready[start : start + count]
                start += count
            ready = ready[start:]
            continue
        waiting += _RUN_NAMES
        if waiting >= _SORTED_FOR_ONE * size():
            waiting = 0
            yield []
    if ready:
        yield ready


def _blocks(names: Collection[str]) -> Iterator[list[str]]:
    """The names in order, in blocks of about a run; an empty one after each run that was sorted before."""
    runs: list[list[str]] = []
    source = iter(names)
    while run := list(islice(source, _RUN_NAMES)):
        run.sort()
        runs.append(run)
        if len(names) > _RUN_NAMES:
            yield []
    if all(earlier[-1] <= later[0] for earlier, later in pairwise(runs)):
        yield from runs
    else:
        yield from _merge(runs)


def _merge(runs: list[list[str]]) -> Iterator[list[str]]:
    samples = sorted(chain.from_iterable(run[::_SAMPLED] for run in runs))
    bounds = samples[_RUN_NAMES // _SAMPLED :: _RUN_NAMES // _SAMPLED]
    starts = [0] * len(runs)
    for bound in bounds:
        block: list[str] = []
        for place, run in enumerate(runs):
            start = starts[place]
            end = bisect_right(run, bound, start)
            if end > start:
                block += run[start:end]
                starts[place] = end
        block.sort()
        yield block
    rest = [name for start, run in zip(starts, runs, strict=True) for name in run[start:]]
    rest.sort()
    if rest:
        yield rest

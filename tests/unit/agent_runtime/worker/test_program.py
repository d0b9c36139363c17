"""What a worker does beside its agents' turns."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agent_runtime.worker.program import collect_some, suspend_collector


@pytest.fixture
def suspended() -> Iterator[None]:
    suspend_collector()
    yield
    gc.unfreeze()
    gc.enable()


class Cyclic:
    """Holds itself."""

    def __init__(self) -> None:
        self.own = self


@pytest.mark.usefixtures("suspended")
def test_young_cycles_are_freed_and_crowds_are_left_alone() -> None:
    gone = weakref.ref(Cyclic())
    assert gone() is not None
    collect_some()
    assert gone() is None
    crowd = [Cyclic() for _ in range(2_000)]
    frozen = gc.get_freeze_count()
    collect_some(objects_max=1_000)
    assert gc.get_freeze_count() >= frozen + len(crowd), "nobody waits while a crowd is looked through"

"""A memory is bounded in both ways."""

from __future__ import annotations

import pytest

from agent_runtime.agents.memory import Memory


def test_the_oldest_make_room_for_the_newest() -> None:
    memory = Memory(items_max=3, chars_max=10)
    for text in ("aaaa", "bbbb", "cc", "d"):
        memory.remember(text)
    assert memory.recall() == ("bbbb", "cc", "d")
    memory.remember("x" * 99)
    assert memory.recall() == ("x" * 10,)


def test_two_thousand_rounds_leave_it_as_large_as_its_bound() -> None:
    memory = Memory()
    for number in range(2000):
        memory.remember(f"round {number}: " + "word " * 50)
    assert len(memory) <= 64
    assert sum(map(len, memory.recall())) <= 8000


def test_a_memory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Memory(items_max=0)

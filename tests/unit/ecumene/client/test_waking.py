"""Names of timers, and what is read of agents' wakes by others than their runtime."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.client.waking import find_first_wake, is_hashed_timer, name_timer, split_timer


def test_a_name_says_whose_timer_it_is_while_that_fits() -> None:
    assert name_timer("r", "g.0") == "wakes.r:g.0"
    long = {name_timer("r" * 80, f"{'g' * 40}.{number}") for number in (12_345, 12_346)}
    assert len(long) == 2 and all(is_hashed_timer(name) and len(name) <= 128 for name in long)


def test_no_two_parts_share_a_name_and_each_name_says_its_part() -> None:
    parts = [("a", "b.g.0"), ("a.b", "g.0"), ("a.b.g", "0.0"), ("a", "b.0")]
    names = [name_timer(*part) for part in parts]
    assert len(set(names)) == len(parts) and [split_timer(name) for name in names] == parts
    others = ("wakes.", "wakes.r.g", "bell:r:g.0", name_timer("r" * 80, f"{'g' * 40}.12345"))
    assert [split_timer(name) for name in others] == [None] * 4
    assert not any(is_hashed_timer(name) for name in (*names, *others[:3]))


@pytest.mark.parametrize(
    ("document", "first_ns"),
    [
        ({"wakes": [[70, "b"], [60]], "woke_ns": 5}, 60),
        ({"wakes": [], "woke_ns": 5}, None),
        ({"wakes": [["x"]]}, None),
        ({"wakes": [[]]}, None),
        ({}, None),
        (7, None),
        (None, None),
    ],
)
def test_the_first_wake_of_a_document(document: Any, first_ns: int | None) -> None:
    assert find_first_wake(document) == first_ns

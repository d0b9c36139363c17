"""Names of timers, and what is read of agents' wakes by others than their runtime."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.client.waking import find_first_wake, name_timer


def test_a_name_says_whose_timer_it_is_while_that_fits() -> None:
    assert name_timer("r", "g.0") == "wakes.r.g.0"
    long = {name_timer("r" * 80, f"{'g' * 40}.{number}") for number in (12_345, 12_346)}
    assert len(long) == 2 and all(name.startswith("wakes.") and len(name) <= 128 for name in long)


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

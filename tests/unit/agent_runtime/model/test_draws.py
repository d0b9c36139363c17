"""Random streams that belong to a question."""

from __future__ import annotations

import pytest

from agent_runtime.model.draws import Draw

EXPECTED = [0.6851049797062729, 0.7117630421791585, 0.8950106767215404]


def test_draws_are_a_function_of_the_key_on_every_machine() -> None:
    draw = Draw(1, "agent-1", 2, 0)
    assert [draw.random() for _ in range(3)] == pytest.approx(EXPECTED, abs=0)
    keys = [(1, "a", 1, 0, 0), (2, "a", 1, 0, 0), (1, "b", 1, 0, 0), (1, "a", 2, 0, 0), (1, "a", 1, 1, 0)]
    assert len({Draw(*key).random() for key in [*keys, (1, "a", 1, 0, 1)]}) == 6


def test_draws_are_uniform() -> None:
    counts = [0] * 20
    for agent in range(2_000):
        draw = Draw(5, f"a{agent}", 1, 0)
        for _ in range(10):
            counts[draw.randrange(20)] += 1
    chi_square = sum((count - 1000) ** 2 / 1000 for count in counts)
    assert chi_square < 43.8  # 99.9 % of 19 degrees of freedom
    assert {Draw(5, f"a{i}", 1, 0).choice("xyz") for i in range(50)} == {"x", "y", "z"}

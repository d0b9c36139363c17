"""Sums do not depend on order, and equal what fractions give; extremes follow a changing multiset."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_server.model.values import INT_MAX, INT_MIN
from env_server.state_tree.aggregates import exact
from env_server.state_tree.aggregates.exact import ExactSum, Extremes, to_units

TINY = 5e-324
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0.0, -0.0, TINY, -TINY, 1e308, -1e308, 1.7976931348623157e308, 2**53 + 1.0, 0.1, 1e16, 1.0, -1e16]
    ),
    st.floats(min_value=-2.3e-308, max_value=2.3e-308),
)
INTEGERS = st.integers(INT_MIN, INT_MAX)


def rounded(number: Fraction) -> float | None:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return None


@given(st.lists(st.tuples(st.booleans(), st.one_of(DOUBLES, INTEGERS)), max_size=60), st.integers(1, 9))
def test_a_sum_equals_that_of_fractions(steps: list[tuple[bool, float | int]], fold_at: int) -> None:
    before, exact._FOLD_AT = exact._FOLD_AT, fold_at
    try:
        total, expected, present = ExactSum(), Fraction(0), []
        for removes, number in steps:
            sign = 1
            if removes and present:
                number, sign = present.pop(), -1
            else:
                present.append(number)
            expected += sign * Fraction(number)
            if isinstance(number, int):
                total.add_int(sign * number)
            else:
                total.add(sign * number)
        assert Fraction(total.units(), 1 << 1074) == expected
        assert total.value() == rounded(expected)
        for divisor in (1, 3, 7, 10**6):
            assert total.divided(divisor) == rounded(expected / divisor)
    finally:
        exact._FOLD_AT = before


@given(st.lists(DOUBLES, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_adding_does_not_matter(numbers: list[float], chance: random.Random) -> None:
    sums = []
    for _ in range(3):
        total = ExactSum()
        for number in numbers:
            total.add(number)
        sums.append(total.units())
        chance.shuffle(numbers)
    assert len(set(sums)) == 1


def test_a_sum_beyond_a_double_on_its_way_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_FOLD_AT", 3)
    total = ExactSum()
    for number in (1e308, 1e308, 1e308, TINY):
        total.add(number)
    assert total.value() is None
    assert total.divided(3) == 1e308
    for _ in range(3):
        total.add(-1e308)
    assert total.value() == TINY
    total.add(-TINY)
    assert total.units() == 0


def test_integers_keep_their_bits_up_to_64_and_become_doubles_beyond() -> None:
    total = ExactSum()
    total.add_int(INT_MAX)
    assert total.integer() == INT_MAX
    total.add_int(1)
    assert total.integer() == 2.0**63
    total.add_int(2 * INT_MIN)
    assert total.integer() == INT_MIN


@given(DOUBLES)
def test_units_are_exact(number: float) -> None:
    assert Fraction(to_units(number), 1 << 1074) == Fraction(number)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(-20, 20) | st.sampled_from([0.5, -0.0, 1e308])), max_size=400))
def test_extremes_follow_adding_and_removing(steps: list[tuple[bool, float | int]]) -> None:
    low, high, present = Extremes(1), Extremes(-1), []
    for removes, number in steps:
        if removes and present:
            number = present.pop(len(present) // 2)
            low.remove(number)
            high.remove(number)
        else:
            present.append(number)
            low.add(number)
            high.add(number)
        assert low.value() == (min(present) if present else None)
        assert high.value() == (max(present) if present else None)


def test_extremes_do_not_keep_what_was_removed() -> None:
    low = Extremes(1)
    for number in range(10_000):
        low.add(number)
        if number:
            low.remove(number - 1)
    assert low.value() == 9_999
    assert len(low._heap) < 200
    assert sum(Counter(low._counts).values()) == 1
    assert math.isfinite(low.value() or 0)

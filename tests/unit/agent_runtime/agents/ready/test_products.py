"""Slips of arithmetic are found, and right or longer calculations are left alone."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.agents.ready import find_wrong_products


@pytest.mark.parametrize(
    ("text", "claimed", "exact"),
    [
        ("2/3 of 45 is 33", 33, 30),
        ("I think 2/3 of 45 is about 33, so I say 33.", 33, 30),
        ("Two thirds of the average of 60 equals 45.", 45, 40),
        ("half of 60 gives 20", 20, 30),
        ("45 × 2/3 = 33", 33, 30),
        ("0.5 * 40 = 25", 25, 20),
        ("50*0.67=30", 30, 33.5),
        ("66.7% of 45 is 36", 36, 30.015),
        ("3 times 15 is 40", 40, 45),
    ],
)
def test_a_wrong_product_is_found(text: str, claimed: float, exact: float) -> None:
    (wrong,) = find_wrong_products(text)
    assert wrong.text in text
    assert wrong.claimed == claimed
    assert wrong.exact == pytest.approx(exact)


@pytest.mark.parametrize(
    "text",
    [
        "2/3 of 50 is 33",
        "2/3 of 50 is 33.3",
        "2/3 of 50 is 34",
        "2/3 of 50 is 33.34",
        "2/3 of 50 is roughly 35",
        "2/3 of 50 ≈ 35",
        "1/2 of 7 would be 3",
        "0.67 * 50 = 33.33",
        "66.67% of 30 is 20",
        "2/3 * 2/3 * 50 = 22.2",
        "2/3 of 2/3 of 50 is 22.2",
        "100 - 2/3 of 45 is 70",
        "(1 + 1/2) * 10 = 15",
        "2/3 of 45 is 90/3",
        "2/3 of 45 is 3 times 10",
        "2/3 of 3 is 2,000",
        "20 of 50 is not many",
        "the year 2/3 of them left",
        "",
    ],
)
def test_what_is_right_or_no_simple_product_is_left_alone(text: str) -> None:
    assert find_wrong_products(text) == []


def test_each_slip_of_a_chain_is_found_in_order() -> None:
    text = "2/3 of 100 is 66.67, then 2/3 of 66.67 is 40, and 2/3 of 40 is 20."
    assert [wrong.claimed for wrong in find_wrong_products(text)] == [40, 20]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10_000), st.integers(0, 4))
def test_a_rounded_product_is_never_flagged(above: int, below: int, amount: int, digits: int) -> None:
    exact = Fraction(above, below) * amount
    text = f"{above}/{below} of {amount} is {float(exact):.{digits}f}"
    assert find_wrong_products(text) == []


@given(st.text(alphabet="0123456789/.*% ofthalis=×", max_size=200))
def test_any_text_is_read_without_error(text: str) -> None:
    for wrong in find_wrong_products(text):
        assert wrong.text in text


@pytest.mark.parametrize("piece", ["9", "2/3 of ", "half ", " ", "1.", "2/3 * "])
def test_a_long_answer_costs_no_quadratic_time(piece: str) -> None:
    began_s = time.process_time()
    find_wrong_products(piece * 20_000)
    assert time.process_time() - began_s < 2

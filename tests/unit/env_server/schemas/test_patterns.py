"""What a pattern weighs: as many places as it has when its repetitions are written out."""

from __future__ import annotations

import pytest

from env_server.model.errors import InvalidRequest
from env_server.schemas.patterns import weigh_pattern


@pytest.mark.parametrize(
    ("pattern", "written_out"),
    [
        ("", ""),
        ("a{3}", "aaa"),
        ("a{1,3}b", "aaab"),
        ("a{2,}", "aa"),
        ("a{0}", "a"),
        ("(?:ab){3}", "(?:ababab)"),
        ("(?P<x>ab)+{3}", "(?P<x>ababab)"),
        ("((?:ab){2}c){2}", "(?:ababcababc)"),
        (r"[\]({9]{3}", "[a][b][c]"),
        (r"[^]]{3}", "[a][b][c]"),
        (r"[[:alpha:]]{2}", "ab"),
        (r"\p{L}{3}", "aaa"),
        (r"\({2}", "aa"),
        (r"\{900}", "abcde"),
    ],
)
def test_it_weighs_at_least_what_it_says_and_not_much_more(pattern: str, written_out: str) -> None:
    assert weigh_pattern(written_out) <= weigh_pattern(pattern) <= 2 * weigh_pattern(written_out) + 8


@pytest.mark.parametrize(
    "pattern", ["((a{1000}){1000}){1000}", "a{99999999999999999999}", "(" * 50 + "a" + "){99}" * 50]
)
def test_large_ones_stay_numbers(pattern: str) -> None:
    assert 1_000_000 < weigh_pattern(pattern) < 10**16


@pytest.mark.parametrize("pattern", ["(?x)a { 9 }", "(?ix:a)", "(?i-x)a"])
def test_a_flag_under_which_texts_mean_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="flag x"):
        weigh_pattern(pattern)


def test_broken_ones_weigh_something_too() -> None:
    for pattern in ("(", ")", "[", "\\", "{", "}", "{3}", "a{", "[^", "(?", "(?P<", ")){3}", r"\p{"):
        assert weigh_pattern(pattern) >= 4

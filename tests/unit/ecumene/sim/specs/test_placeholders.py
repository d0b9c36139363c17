"""Names in braces: what counts as one, and that values are never read as texts."""

from __future__ import annotations

import pytest
from ecumene.sim.specs.placeholders import fill, list_placeholders


def test_each_name_is_listed_once_in_its_order() -> None:
    assert list_placeholders("{b} and {a_1}, {b} again; {größe}") == ["b", "a_1", "größe"]


@pytest.mark.parametrize("text", ["{}", "{ a }", "{1}", "{a", 'like {"age": 3}'])
def test_other_braces_are_text(text: str) -> None:
    assert list_placeholders(text) == []
    assert fill(text, {}) == text


def test_a_value_may_look_like_a_name() -> None:
    assert fill("{a}{b}", {"a": "{b}", "b": r"\1 {a}"}) == r"{b}\1 {a}"


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("{a}", {"b": "1"})

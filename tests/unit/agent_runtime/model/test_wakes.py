"""Wakes as agents ask for them, and as the world keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.model.wakes import (
    TIME_MAX_NS,
    WAKES_MAX,
    Wake,
    WakesUnreadableError,
    change_wakes,
    find_wake_problem,
    read_wakes,
    write_wakes,
)


def test_what_is_written_is_read_again() -> None:
    wakes = (Wake(-5), Wake(7, "a"), Wake(7, "b", {"x": [1]}))
    document = write_wakes(wakes, 3)
    assert document == {"wakes": [[-5], [7, "a"], [7, "b", {"x": [1]}]], "woke_ns": 3}
    assert read_wakes("ann", document) == (wakes, 3)
    assert read_wakes("ann", {"wakes": [], "woke_ns": None}) == ((), None)


@pytest.mark.parametrize(
    "document",
    [
        None,
        5,
        {},
        {"wakes": 1, "woke_ns": None},
        {"wakes": [[]], "woke_ns": None},
        {"wakes": [["x"]], "woke_ns": None},
        {"wakes": [[1, 2]], "woke_ns": None},
        {"wakes": [[1, "a", None, 4]], "woke_ns": None},
        {"wakes": [[TIME_MAX_NS + 1]], "woke_ns": None},
        {"wakes": [[1]], "woke_ns": 2**63},
        {"wakes": [[1, "a", "x" * 2000]], "woke_ns": None},
    ],
)
def test_what_no_runtime_has_written_says_so(document: Any) -> None:
    with pytest.raises(WakesUnreadableError, match="ann"):
        read_wakes("ann", document)


def test_a_turn_changes_what_it_names() -> None:
    wakes = (Wake(5), Wake(7, "a"), Wake(9, "b"))
    assert change_wakes(wakes, {"a": None, "b": Wake(1, "b"), "c": Wake(6, "c"), "d": None}) == (
        Wake(1, "b"),
        Wake(5),
        Wake(6, "c"),
    )
    many = {str(number): Wake(number, str(number)) for number in range(100)}
    assert [wake.at_ns for wake in change_wakes((), many)] == list(range(WAKES_MAX))


def nested(depth: int) -> Any:
    payload: Any = 1
    for level in range(depth):
        payload = {"a": payload} if level % 2 else [payload]
    return payload


@pytest.mark.parametrize(
    ("at_ns", "name", "payload", "problem"),
    [
        (1.5, "", None, "whole number"),
        (True, "", None, "whole number"),
        (TIME_MAX_NS + 1, "", None, "beyond"),
        (1, "x" * 65, None, "at most 64"),
        (1, 5, None, "at most 64"),
        (1, "\ud800", None, "at most 64"),
        (1, "a", object(), "no JSON"),
        (1, "a", float("nan"), "no JSON"),
        (1, "a", "x" * 1025, "1027 signs"),
        (1, "a", {"b": "\ud800"}, "no JSON"),
        (1, "a", nested(61), "more than 60 levels"),
        (1, "a", nested(60), ""),
        (-1, "a b", [1], ""),
    ],
)
def test_what_cannot_be_asked_for_is_told(at_ns: Any, name: Any, payload: Any, problem: str) -> None:
    found = find_wake_problem(at_ns, name, payload)
    assert (problem in found) if problem else found == ""

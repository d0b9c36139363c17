"""What callers and hosts tell each other: read as it was written, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ecumene.workflows.errors import Failure
from ecumene.workflows.messages import (
    large_bytes,
    mark_resent,
    read_message,
    read_number,
    read_outcome,
    write_failure,
    write_large,
    write_ok,
)

GOOD: dict[str, Any] = {
    "call": 3,
    "do": "call",
    "flow": "f-1",
    "caller": "77",
    "lane": "f-1.77.2",
    "actor": "f-1.77.1",
    "class": "m:C",
    "method": "go",
    "in": [[1], {}],
    "refs": [1, 2],
    "retry": 2,
    "timeout_s": 1.5,
}
WRONG = [None, 5, -1, 1.5, True, "", "/", "\ud800", "x" * 100, [], [[]], {}, {"a": 1}, float("nan"), 10**400]
ALLOWED = {
    "call": {5},
    "lane": {""},
    "class": {"", "/", "\ud800", "x" * 100},
    "method": {"", "/", "\ud800", "x" * 100},
    "retry": {5},
    "resent": {5},
    "made": {5},
    "timeout_s": {None, 5, 1.5, True},
}


def test_a_message_is_read_as_it_was_sent() -> None:
    message = read_message(mark_resent(json.dumps(GOOD), 4))
    assert (message.flow, message.caller, message.number, message.lane) == ("f-1", "77", 3, "f-1.77.2")
    assert (message.actor, message.class_name, message.method) == ("f-1.77.1", "m:C", "go")
    assert (message.inner, message.refs, message.retry, message.resent, message.timeout_s) == (
        [[1], {}], [1, 2], 2, 4, 1.5,
    )  # fmt: skip


@pytest.mark.parametrize("name", [*GOOD, "resent", "made"])
def test_whatever_has_another_type_or_form_is_no_message(name: str) -> None:
    for wrong in WRONG:
        text = json.dumps(GOOD | {name: wrong})
        if (name, wrong) in (("refs", []), ("in", [[]])):
            continue
        if (
            isinstance(wrong, str | int | float | None)
            and wrong in ALLOWED.get(name, ())
            and type(wrong) in ({type(allowed) for allowed in ALLOWED[name]})
        ):
            read_message(text)
            continue
        with pytest.raises(ValueError, match="not the message of a call"):
            read_message(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000, '{"a":' * 100_000, "9" * 5000])
def test_what_is_no_document_is_no_message(text: str) -> None:
    with pytest.raises(ValueError, match="not the message of a call"):
        read_message(text)


def test_an_outcome_is_a_value_or_a_failure_as_it_was_written() -> None:
    assert read_outcome(write_ok([1])).tree == [1]
    failure = Failure("RAISED", "no", "ValueError")
    assert read_outcome(write_failure(failure)).failure == failure
    assert (large_bytes(write_large(17)), large_bytes(write_ok(1))) == (17, 0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "3", "null", "[]", "{}", '"ok"', '["ok"]', ' {"error":{}, "ok":1}', '{"error":[]}',
     '{"error":null}', '{"error":{"origin":5}}', '{"error":{"causes":3}}', '{"large":5}', '{"large":"x"}',
     '{"large":-1}', '{"large":null}', '{"ok":' + "[" * 100_000],
)  # fmt: skip
def test_what_is_no_outcome_is_a_lost_result_and_never_none(text: str) -> None:
    failure = read_outcome(text).failure
    assert failure is not None and failure.code == "RESULT_LOST"
    assert large_bytes(text) == (5 if text == '{"large":5}' else 0)


@pytest.mark.parametrize("key", ["r", "rx", "r-1", "r1.5", "r\u0663", "r" + "9" * 5000, "v3", "3", ""])
def test_keys_of_others_are_no_numbers(key: str) -> None:
    assert read_number(key) == 0
    assert read_number("r17") == 17

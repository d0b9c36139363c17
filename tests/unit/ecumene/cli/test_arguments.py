"""Values that stand on a command line."""

from __future__ import annotations

import pytest
from ecumene import Clock
from ecumene.cli.arguments import parse_clock, parse_named
from ecumene.cli.failures import UsageError


def test_arguments_are_named_values_as_json_or_text() -> None:
    given = ["price=3.5", "name=ann", 'many=[1, "x"]', "note=a=b", "empty=", "flag=true"]
    assert parse_named(given) == {
        "price": 3.5,
        "name": "ann",
        "many": [1, "x"],
        "note": "a=b",
        "empty": "",
        "flag": True,
    }


@pytest.mark.parametrize("argument", ["", "price", "=3", '{"price": 3}', '{"equals": "a=b"}', "many=[1"])
def test_what_is_no_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parse_named(["ok=1", argument])


def test_a_clock_is_named_by_its_mode() -> None:
    assert parse_clock("") is None
    assert parse_clock("event-driven") == Clock.event_driven()
    with pytest.raises(UsageError, match="hourly"):
        parse_clock("hourly")

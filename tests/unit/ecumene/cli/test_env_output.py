"""What is told of entries and environments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ecumene import ClockState
from ecumene.cli.env_output import show_entry, show_mode


@pytest.mark.parametrize(("position", "beside"), [((), ""), ((3.0, 4.5), "at 3,4.5\n")])
def test_a_position_is_told_beside_a_value_that_stays_alone(
    capsys: pytest.CaptureFixture[str], position: tuple[float, ...], beside: str
) -> None:
    entry: Any = SimpleNamespace(value={"a": 1}, position=position)
    show_entry(entry, as_json=False)
    said = capsys.readouterr()
    assert (said.out, said.err) == ('{"a": 1}\n', beside)


def test_a_mode_is_told_as_it_is_given() -> None:
    state = ClockState("/", "event_driven", 0, 1.0, False, None, None, 0, None, ())
    assert show_mode(state) == "event-driven"

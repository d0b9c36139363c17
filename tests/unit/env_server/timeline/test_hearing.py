"""What the value of a participant's entry says that it hears."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.values import Json
from env_server.timeline.hearing import HeardPart, Hearing, read_hearing

EVERYTHING = Hearing((HeardPart(path_prefix="/town"),))


@pytest.mark.parametrize("value", [None, 1, 1.5, "hears", b"{}", Json.of([]), Json.of({}), Json.of({"part": 3})])
def test_a_value_that_says_nothing_hears_all_of_the_clocks_environment(value: object) -> None:
    assert read_hearing(value, "/town", Limits()) == EVERYTHING


def test_filters_are_heard_with_what_they_leave_out() -> None:
    told: dict[str, Any] = {
        "hears": [{"path_prefix": "/game", "types": ["gate_opened", "gate_begun"]}, {"key_glob": "a*"}],
        "part": 3,
    }
    gates = frozenset({int(EventType.GATE_OPENED), int(EventType.GATE_BEGUN)})
    hearing = read_hearing(Json.of(told), "/town", Limits())
    assert hearing == Hearing((HeardPart("/game", gates), HeardPart("", frozenset(), "a*")))
    assert hearing.parts[0].filter.types == gates


def test_it_may_hear_nothing_and_name_a_group() -> None:
    assert read_hearing(Json.of({"hears": []}), "/town", Limits()) == Hearing(())
    assert read_hearing(Json.of({"group": "/town/east"}), "/town", Limits()) == EVERYTHING._replace(group="/town/east")


@pytest.mark.parametrize(
    "told",
    [
        {"hears": {}},
        {"hears": None},
        {"hears": [3]},
        {"hears": [{"actor": "bob"}]},
        {"hears": [{"types": "gate_opened"}]},
        {"hears": [{"types": ["GATE_OPENED"]}]},
        {"hears": [{"types": ["gate_closed"]}]},
        {"hears": [{"types": [10]}]},
        {"hears": [{"path_prefix": 1}]},
        {"hears": [{}] * 16},
        {"group": 7},
    ],
)
def test_what_cannot_be_understood_is_refused_rather_than_half_heard(told: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_hearing(Json.of(told), "/town", Limits())
    assert caught.value.reason is Reason.INVALID_VALUE


def test_a_group_that_is_no_path_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_hearing(Json.of({"group": "east"}), "/town", Limits())

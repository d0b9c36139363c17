"""Intents as they are reported."""

from __future__ import annotations

from agent_runtime.model.intents import Intents


def test_intents_keep_their_order_and_their_arguments() -> None:
    wanted = Intents().add("place", price=9).add("cancel", order=4)
    assert len(wanted) == 2
    assert wanted.value == {"intents": [{"do": "place", "args": {"price": 9}}, {"do": "cancel", "args": {"order": 4}}]}
    assert Intents().value == {"intents": []}

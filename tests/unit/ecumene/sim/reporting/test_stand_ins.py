"""Whatever stood in for models is called so; what is of another shape is no failure."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.reporting.stand_ins import describe_stand_ins

RULE = {"name": "rules", "agent": "level-k"}
ASKED = {"name": "asked", "agent": "prompted"}
REAL = {"provider": "openai", "name": "gpt"}


def spec(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A spec as it is recorded."""
    return {"population": {"groups": list(groups)}, "models": {}, "model": None, **changes}


@pytest.mark.parametrize(
    ("document", "models", "words"),
    [
        (spec(RULE), [], ["All agents are rule agents", "reproduces nobody"]),
        (spec(RULE, ASKED, model=REAL), ["gpt"], ["agents of rules are", "reproduces nobody"]),
        (spec(ASKED), ["scripted"], ["scripted are scripted", "reproduces nobody"]),
        (
            spec(ASKED, models={"a": {"provider": "scripted", "name": "x"}, "b": REAL}),
            ["gpt", "a"],
            ["of a are scripted"],
        ),
        ({}, [], ["no model was asked"]),
        ({"population": 3, "models": [], "model": "x"}, [], ["no model was asked"]),
    ],
)
def test_stand_ins_are_told(document: dict[str, Any], models: list[str], words: list[str]) -> None:
    found = describe_stand_ins(document, models)
    assert all(word in found for word in words), found


def test_of_models_alone_nothing_is_said() -> None:
    assert describe_stand_ins(spec(ASKED, model=REAL), ["gpt"]) == ""
    assert describe_stand_ins(spec(ASKED, model={**REAL, "name": "scripted"}), ["scripted"]) == ""

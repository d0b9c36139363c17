"""Errors of bounds: all advise when to come again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import env_server
from env_server.model.errors import QUOTA_RETRY_DELAY_MS, Exhausted, Reason
from env_server.rpc.encode.errors import CODE_OF

SOURCES = sorted(Path(env_server.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("reason", [reason for reason in Reason if CODE_OF[reason].name == "RESOURCE_EXHAUSTED"])
def test_a_bound_that_was_reached_always_comes_with_a_delay(reason: Reason) -> None:
    assert Exhausted(reason, "full").retry_delay_ms == QUOTA_RETRY_DELAY_MS > 0
    error = Exhausted.of(reason, "things_max", 7, "full", used="8")
    assert error.retry_delay_ms == QUOTA_RETRY_DELAY_MS
    assert error.metadata == {"limit": "things_max", "max": "7", "used": "8"}
    assert Exhausted.of(reason, "things_max", 7, "full", 5).retry_delay_ms == 5


def test_no_other_class_is_raised_for_a_bound() -> None:
    exhausted = {reason.name for reason in Reason if CODE_OF[reason].name == "RESOURCE_EXHAUSTED"}
    found = 0
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Attribute)):
                continue
            if ast.unparse(node.args[0]).startswith("Reason.") and node.args[0].attr in exhausted:
                assert ast.unparse(node.func) in ("Exhausted", "Exhausted.of"), f"{source.name}:{node.lineno}"
                found += 1
    assert found > 12

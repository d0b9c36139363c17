"""Messages of model errors: one bounded line, no secrets."""

from __future__ import annotations

import pytest

from agent_runtime.llm import (
    ModelEndpointError,
    ModelError,
    ModelParseError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelTruncatedError,
    ModelUnavailableError,
)


@pytest.mark.parametrize(
    ("error", "status", "transient"),
    [
        (ModelParseError("m", "x"), "parse_error", False),
        (ModelTruncatedError("m", 5), "truncated", False),
        (ModelRefusedError("m"), "refused", False),
        (ModelTimeoutError("m", 3), "timeout", True),
        (ModelUnavailableError("m", "h:1", "x"), "error", True),
        (ModelEndpointError("m", "h:1", 400, "x"), "error", False),
    ],
)
def test_each_failure_has_its_turn_status(error: ModelError, status: str, transient: bool) -> None:
    assert (error.status, error.transient) == (status, transient)
    assert str(error).startswith("m: ")


def test_a_body_of_many_lines_becomes_one_bounded_line() -> None:
    message = str(ModelEndpointError("m", "h:1", 400, '{\n  "error": 1,\n' * 200))
    assert "\n" not in message
    assert len(message) <= 260


@pytest.mark.parametrize("secret", ["sk-abcdef123456", "Bearer abc.def", "sk_live_12345678"])
def test_what_looks_like_a_key_is_blotted_out(secret: str) -> None:
    message = str(ModelEndpointError("m", "h:1", 401, f"Incorrect API key: {secret} given"))
    assert secret not in message
    assert message.endswith("given")

"""API keys: where they come from and that they do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.llm import ModelSetupError
from agent_runtime.llm.providers.api_key import ApiKey

KEY = "very-secret-value"


def test_keys_come_from_a_variable_or_a_file_and_do_not_show(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    for key in (ApiKey.read(variable="K", environ={"K": KEY}), ApiKey.read(file=file)):
        assert key is not None
        assert key.header() == {"Authorization": f"Bearer {KEY}"}
        assert KEY not in f"{key} {key!r}"
    assert ApiKey.read() is None


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelSetupError, match="environment variable K holds none"):
        ApiKey.read(variable="K", environ={})
    with pytest.raises(ModelSetupError, match="cannot be read: FileNotFoundError"):
        ApiKey.read(file=tmp_path / "none")


def test_a_file_without_end_is_no_key() -> None:
    with pytest.raises(ModelSetupError, match="more than 65,536 bytes"):
        ApiKey.read(file=Path("/dev/zero"))


@pytest.mark.parametrize("secret", ["two\nlines", "a\r\nX-Other: 1", "na\u00efve", "nul\0"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(secret: str) -> None:
    with pytest.raises(ModelSetupError, match="no header") as caught:
        ApiKey.read(variable="K", environ={"K": secret})
    assert secret not in str(caught.value)

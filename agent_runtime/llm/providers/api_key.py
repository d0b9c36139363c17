"""Secrets of model endpoints: from the environment or a file, and shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent_runtime.llm.errors import ModelSetupError

KEY_BYTES_MAX = 64 * 1024


class ApiKey:
    """A secret that does not show: neither in `repr`, nor in messages, nor in records."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @classmethod
    def read(
        cls, *, variable: str | None = None, file: Path | None = None, environ: Mapping[str, str] = os.environ
    ) -> ApiKey | None:
        """Returns the key from an environment variable or a file, None if neither is named.

        Raises:
            ModelSetupError: the variable is unset, the file unreadable, or the key empty or unfit for a header.
        """
        if variable is not None:
            secret = environ.get(variable, "")
            source = f"environment variable {variable}"
        elif file is not None:
            source = f"key file {file}"
            try:
                with file.open("rb") as opened:
                    secret = opened.read(KEY_BYTES_MAX + 1).decode("utf-8")
            except (OSError, ValueError) as error:
                raise ModelSetupError("API key", f"{source} cannot be read: {type(error).__name__}") from None
        else:
            return None
        if len(secret) > KEY_BYTES_MAX:
            raise ModelSetupError("API key", f"{source} holds more than {KEY_BYTES_MAX:,} bytes")
        secret = secret.strip()
        if not secret:
            raise ModelSetupError("API key", f"{source} holds none")
        if not (secret.isascii() and secret.isprintable()):
            raise ModelSetupError("API key", f"{source} holds what no header can: a line break, or no ASCII")
        return cls(secret)

    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._secret}"}

    def hide_in(self, text: str) -> str:
        """Returns `text` with the key blotted out; some endpoints echo it."""
        return text.replace(self._secret, "[hidden]")

    def __repr__(self) -> str:
        return "ApiKey([hidden])"

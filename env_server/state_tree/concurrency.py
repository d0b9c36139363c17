"""How many operations of one environment may run at a time, as its own config says."""

import json
from typing import Any, Final

from env_server.model.environments import BASIC, Declaration
from env_server.model.errors import InvalidRequest, Reason

CONCURRENCY_KEY: Final = "max_concurrency"
"""Of the config of an environment whose kind is a behaviour's: a positive integer. Without it, the behaviour's class
says how many."""
_MARK: Final = f'"{CONCURRENCY_KEY}"'.encode()


def check_concurrency(declaration: Declaration) -> None:
    """Accepts what the config says.

    Raises:
        InvalidRequest: INVALID_VALUE.
    """
    said = _read(declaration)
    if said is not None and (type(said) is not int or said < 1):
        raise InvalidRequest(Reason.INVALID_VALUE, f"config.{CONCURRENCY_KEY}", "must be a positive integer")


def find_concurrency(declaration: Declaration) -> int:
    """What the config says; 0 = nothing, or nothing that can be meant: it was stored before anybody checked it."""
    said = _read(declaration)
    return said if type(said) is int and said > 0 else 0


def _read(declaration: Declaration) -> Any:
    if declaration.kind == BASIC or _MARK not in declaration.config.text:  # nearly all: nothing is parsed
        return None
    config = json.loads(declaration.config.text)
    return config.get(CONCURRENCY_KEY) if isinstance(config, dict) else None

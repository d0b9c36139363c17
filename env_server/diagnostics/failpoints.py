"""Failpoints: named places on the path where a test makes the process die or fail.

The environment variable FAILPOINT holds `name:action` or `name:action:n` (at the n-th time the place is reached,
counted from 1), several parted by commas. Actions: kill (SIGKILL to itself, as a power cut of the process), exit
(status 70, without any clean-up), raise (FailpointReached). Unset, reaching a place costs one call and one test.

Places: before_begin after_begin before_put after_put before_commit after_commit before_publish after_publish in the
writer; during_copy before_copy_rename after_copy_rename after_snapshot_doomed where a world is copied, or a copy
deleted; other stages add theirs here.
"""

import os
import signal
from dataclasses import dataclass
from typing import Final

WRITER_PLACES: Final = frozenset(
    {
        "before_begin",
        "after_begin",
        "before_put",
        "after_put",
        "before_commit",
        "after_commit",
        "before_publish",
        "after_publish",
    }
)
COPY_PLACES: Final = frozenset({"during_copy", "before_copy_rename", "after_copy_rename", "after_snapshot_doomed"})
PLACES: Final = WRITER_PLACES | COPY_PLACES
ACTIONS: Final = frozenset({"kill", "exit", "raise"})
EXIT_STATUS: Final = 70


class FailpointReached(Exception):
    """Raised at the place `name` by the action `raise`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"failpoint {name}")
        self.name = name


@dataclass(slots=True)
class _Armed:
    action: str
    remaining: int


def parse_failpoints(text: str) -> dict[str, _Armed]:
    """What FAILPOINT asks for, by place.

    Raises:
        ValueError: an unknown place or action: a test that cannot fail would be worse than none.
    """
    armed = {}
    for part in filter(None, text.split(",")):
        name, _, rest = part.partition(":")
        action, _, count = rest.partition(":")
        if name not in PLACES or action not in ACTIONS:
            raise ValueError(f"FAILPOINT: no such place or action: {part!r}")
        armed[name] = _Armed(action, int(count or 1))
    return armed


_armed: dict[str, _Armed] = parse_failpoints(os.environ.get("FAILPOINT", ""))


def reach(name: str) -> None:
    """Does what FAILPOINT says for this place; nothing, as a rule.

    Raises:
        FailpointReached: by the action `raise`.
    """
    if _armed and name in _armed:
        _act(name, _armed[name])


def _act(name: str, armed: _Armed) -> None:
    armed.remaining -= 1
    if armed.remaining != 0:
        return
    if armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == "exit":
        os._exit(EXIT_STATUS)
    raise FailpointReached(name)

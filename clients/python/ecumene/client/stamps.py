"""What a handle puts on every op that goes through it: the group whose view it takes, the fence it stands behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Fence(NamedTuple):
    """An entry that must still be the one created at a revision: a lock's place and token, see World.fenced."""

    path: str
    key: str
    token: int


class Stamp(NamedTuple):
    """What stands on every op of a handle."""

    group_index: int = 0
    """Index + 1 among the groups of the session; 0 = none."""
    fence: Fence | None = None

    def put_on(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of an op with what the handle adds."""
        if not self.group_index and self.fence is None:
            return options
        return {**options, "group": self.group_index, "fence": self.fence}


PLAIN = Stamp()

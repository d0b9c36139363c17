"""Views: what a group may see and change, from its path and from grants alone.

A group sees its own subtree; its ancestors, each by itself; and whole subtrees that are granted to it. It may change
what lies in its own subtree and where WRITE is granted. Nothing here looks at the state, so a replay under a view gives
what was told live.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from env_server.model.changes import EventType
from env_server.model.environments import Access
from env_server.model.errors import InvalidRequest
from env_server.model.limits import Limits
from env_server.model.names import ROOT, split_path

EVERY_GROUP: Final = "*"
"""In a grant: whatever group."""

UNSEEN: Final = 0
"""Less than every Access."""

HIDDEN_TYPES: Final = frozenset({EventType.LEASE_GRANTED, EventType.LEASE_ENDED, EventType.SUBSCRIPTION_CHANGED})
"""Events that are told at the root, which every group sees, and concern the one who asked for them."""


class View:
    """What one group may do, with the grants of one moment. Never changes."""

    __slots__ = ("_granted", "_inside", "group")

    def __init__(self, group: str, granted: Mapping[str, Access]) -> None:
        """`granted` holds, by the path of the granting environment, what the group may do there and below."""
        self.group = group
        self._inside = group if group == ROOT else group + ROOT
        self._granted = dict(granted)

    def access(self, path: str) -> int:
        """What the group may do at this path: UNSEEN, READ or WRITE."""
        return self._whole(path) or (Access.READ if self._is_above(path) else UNSEEN)

    def sees(self, path: str) -> bool:
        """Whether what is at this path may be told to the group; what lies below it is another question."""
        return self.access(path) > UNSEEN

    def rests_on(self, root: str) -> tuple[str, ...]:
        """Where grants let it see, at `root` and below, what it would not see without them: whole subtrees."""
        found = set()
        for path in self._granted:
            if _is_within(path, root) or _is_within(root, path):
                where = max(path, root, key=len)
                if not _is_within(where, self.group) and not any(above in self._granted for above in _ancestors(path)):
                    found.add(where)
        return tuple(sorted(found))

    def loses(self, paths: tuple[str, ...]) -> str:
        """The first of these paths that it does not see with all that lies below it; "" = there is none."""
        return next((path for path in paths if not self._whole(path)), "")

    def children(self, path: str) -> set[str] | None:
        """Names of the children of `path` that it sees, existing or not; None = all that there are."""
        if self._whole(path):
            return None
        start = path if path == ROOT else path + ROOT
        seen = {granted[len(start) :] for granted in self._granted if granted.startswith(start) and granted != path}
        if self.group.startswith(start):
            seen.add(self.group[len(start) :].partition(ROOT)[0])
        return {name for name in seen if name and ROOT not in name}

    def _whole(self, path: str) -> int:
        """The access that holds for `path` and everything below it."""
        if path == self.group or path.startswith(self._inside):
            return Access.WRITE
        granted = self._granted
        if not granted:
            return UNSEEN
        return max(granted.get(path, UNSEEN), *(granted.get(above, UNSEEN) for above in _ancestors(path)), UNSEEN)

    def _is_above(self, path: str) -> bool:
        return path == ROOT or self.group.startswith(path + ROOT)


def check_group(group: str, limits: Limits, field: str) -> None:
    """Accepts the path of a group. Its environment need not exist: the group sees its ancestors and what is granted.

    Raises:
        InvalidRequest: INVALID_PATH, naming `field`.
    """
    try:
        split_path(group, limits)
    except InvalidRequest as error:
        raise InvalidRequest(error.reason, field, f"{group!r} is no path of an environment") from None


def _is_within(path: str, root: str) -> bool:
    return root == ROOT or path == root or path.startswith(root + ROOT)


def _ancestors(path: str) -> Iterator[str]:
    while path not in (ROOT, ""):
        path = path.rpartition(ROOT)[0] or ROOT
        yield path

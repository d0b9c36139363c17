"""What a group may see and do, said again as naively as possible: by looking at every environment and every grant."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from env_server.model.environments import Access

PATHS = ["/", *("/" + "/".join(parts) for depth in (1, 2) for parts in product("abc", repeat=depth))]
GROUPS = ["/a", "/b", "/a/a", "/c/c"]


class Granted(NamedTuple):
    """One grant of one environment that exists."""

    path: str
    group: str
    access: int


def is_within(path: str, root: str) -> bool:
    """Whether it is this environment or lies below it."""
    return root == "/" or f"{path}/".startswith(f"{root}/")


def has_whole(group: str, path: str, grants: list[Granted]) -> int:
    """What the group may do at the path and everywhere below it."""
    if is_within(path, group):
        return Access.WRITE
    found = [grant.access for grant in grants if grant.group in (group, "*") and is_within(path, grant.path)]
    return max(found, default=0)


def may_see(group: str, path: str, grants: list[Granted]) -> bool:
    """Whether the path is told to the group at all."""
    return bool(has_whole(group, path, grants)) or is_within(group, path)


def may_change(group: str, path: str, grants: list[Granted]) -> bool:
    """Whether the group may write there."""
    return has_whole(group, path, grants) == Access.WRITE

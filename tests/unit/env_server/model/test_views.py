"""Views against their definition, said again by enumeration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.model.environments import Access
from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.views import UNSEEN, View, check_group

PATHS = ["/"] + ["/" + "/".join(parts) for depth in (1, 2, 3) for parts in product("ab", repeat=depth)]
GRANTED = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([Access.READ, Access.WRITE]), max_size=4)


def lies_within(path: str, root: str) -> bool:
    return f"{path}/".replace("//", "/").startswith(f"{root}/".replace("//", "/"))


def expected_access(group: str, granted: dict[str, Access], path: str) -> int:
    if lies_within(path, group):
        return Access.WRITE
    found = [access for root, access in granted.items() if lies_within(path, root)]
    if lies_within(group, path):
        found.append(Access.READ)
    return max(found, default=UNSEEN)


@given(st.sampled_from(PATHS), GRANTED)
def test_access_is_that_of_the_definition(group: str, granted: dict[str, Access]) -> None:
    view = View(group, granted)
    for path in PATHS:
        assert view.access(path) == expected_access(group, granted, path), path
        assert view.sees(path) == (view.access(path) > UNSEEN)
        seen = view.children(path)
        names = {
            child.rpartition("/")[2] for child in PATHS if child != "/" and (child.rpartition("/")[0] or "/") == path
        }
        visible = {name for name in names if view.sees(f"{path.rstrip('/')}/{name}")}
        assert visible == (names if seen is None else seen & names), path


@given(st.sampled_from(PATHS), GRANTED, GRANTED, st.sampled_from(PATHS))
def test_a_view_rests_on_the_grants_without_which_it_would_be_thinner(
    group: str, before: dict[str, Access], after: dict[str, Access], root: str
) -> None:
    rests_on = View(group, before).rests_on(root)
    lost = View(group, after).loses(rests_on)
    # Deeper than any grant, so that what is seen there is seen for the sake of what stands above it.
    leaves = [f"{path.rstrip('/')}/leaf" for path in PATHS]
    thinner = [
        path
        for path in leaves
        if lies_within(path, root)
        and expected_access(group, before, path) > expected_access(group, after, path) == UNSEEN
    ]
    assert bool(lost) == bool(thinner)


def test_a_view_does_not_follow_the_grants_it_was_made_from() -> None:
    granted = {"/a": Access.READ}
    view = View("/b", granted)
    granted.clear()
    assert view.sees("/a/x")


@pytest.mark.parametrize("group", ["", "a", "/a/", "//", "*", "/" + "x" * 129])
def test_a_group_is_a_path(group: str) -> None:
    with pytest.raises(WorldError, match=r"^f\.groups") as caught:
        check_group(group, Limits(), "f.groups")
    assert caught.value.reason is Reason.INVALID_PATH

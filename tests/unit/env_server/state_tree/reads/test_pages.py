"""Listings: every page shows the revision of the first one, and tokens are good for one listing and one time."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.errors import OutOfRange, Reason
from env_server.model.limits import Limits
from env_server.model.operations import Code, ListChildren, ListEntries, Query
from tests.engine import Op, Stand, drop, new_environment, put


def listing(stand: Stand, token: str = "", size: int = 10, prefix: str = "", path: str = "/l") -> Any:
    return stand.done(Op(path, "", Code.QUERY, Query(ListEntries(prefix, size, token))))[0]


def children(stand: Stand, token: str = "", size: int = 10, **parts: Any) -> Any:
    return stand.done(Op("/l", "", Code.QUERY, Query(ListChildren(page_size=size, page_token=token, **parts))))[0]


@pytest.fixture
def stand() -> Stand:
    stand = Stand(limits=Limits(pages_open_max=3, page_idle_s=30.0))
    stand.done(new_environment("/l"), *[put("/l", f"k{number:03}", number) for number in range(35)])
    return stand


def test_pages_show_one_revision_while_writes_go_on(stand: Stand) -> None:
    page = listing(stand)
    revision, seen = page.revision, list(page.entries)
    while page.next_page_token:
        stand.done(drop("/l", seen[-1][0]), put("/l", f"k{34:03}", -1), put("/l", "k0005", "new"))
        page = listing(stand, page.next_page_token)
        assert page.revision == revision
        seen += page.entries
    assert [(key, entry.value) for key, entry in seen] == [(f"k{number:03}", number) for number in range(35)]
    assert listing(stand, size=1000).revision == stand.world.revision > revision


def test_keys_come_in_order_of_code_points_whatever_the_order_of_writing(stand: Stand) -> None:
    stand.done(new_environment("/o"), *[put("/o", key, 1) for key in ("ż", "a", "Z", "é", "10", "9", "a b", "😀", "~")])
    for size in (1, 3, 100):
        keys, token = [], ""
        while True:
            page = listing(stand, token, size, path="/o")
            keys += [key for key, _ in page.entries]
            token = page.next_page_token
            if not token:
                break
        assert keys == sorted(keys)
        assert len(keys) == 9


def test_a_token_is_good_for_its_own_listing_until_that_goes_on(stand: Stand) -> None:
    stand.done(new_environment("/m"), *[put("/m", f"k{number}", 1) for number in range(20)])
    token = listing(stand).next_page_token
    for op in (
        Op("/m", "", Code.QUERY, Query(ListEntries("", 10, token))),
        Op("/l", "", Code.QUERY, Query(ListEntries("k", 10, token))),
        Op("/l", "", Code.QUERY, Query(ListChildren(page_size=10, page_token=token))),
    ):
        assert stand.do(op).error.reason is Reason.INVALID_FIELD
    page = listing(stand, token)
    assert listing(stand, token) == page, "a client that lost the answer asks again"
    listing(stand, page.next_page_token)
    for bad in (token, "nonsense", "1.", "..", "9.10"):
        error = stand.do(Op("/l", "", Code.QUERY, Query(ListEntries("", 10, bad)))).error
        assert isinstance(error, OutOfRange)
        assert error.reason is Reason.PAGE_EXPIRED


def test_a_page_ends_before_it_outgrows_a_message(stand: Stand) -> None:
    stand.done(new_environment("/big"), *[put("/big", f"k{number}", b"x" * 1_000_000) for number in range(7)])
    seen, token = [], ""
    while True:
        page = stand.do(Op("/big", "", Code.QUERY, Query(ListEntries("", 100, token)))).outcome()
        assert sum(len(entry.value) for _, entry in page.entries) <= 3 * 1024 * 1024
        seen += [key for key, _ in page.entries]
        token = page.next_page_token
        if not token:
            break
    assert seen == [f"k{number}" for number in range(7)]


def test_a_listing_expires_after_its_time_and_the_longest_idle_one_makes_room(stand: Stand) -> None:
    token = listing(stand).next_page_token
    stand.clock.advance(29)
    token = listing(stand, token).next_page_token
    stand.clock.advance(29)
    token = listing(stand, token).next_page_token
    stand.clock.advance(31)
    assert stand.do(Op("/l", "", Code.QUERY, Query(ListEntries("", 10, token)))).error.reason is Reason.PAGE_EXPIRED
    tokens = []
    for _ in range(4):
        tokens.append(listing(stand).next_page_token)
        stand.clock.advance(1)
    assert stand.do(Op("/l", "", Code.QUERY, Query(ListEntries("", 10, tokens[0])))).error.reason is Reason.PAGE_EXPIRED
    stand.done(*[new_environment(f"/l/c{n}") for n in range(3)])
    for _ in range(4):
        assert children(stand).next_page_token == "", "a listing of one page takes no other's place"
    for token in tokens[1:]:
        assert len(listing(stand, token).entries) == 10


def test_children_are_listed_with_labels_prefix_and_pages(stand: Stand) -> None:
    stand.done(*[new_environment(f"/l/c{n:02}", labels={"odd": str(n % 2), "all": ""}) for n in range(25)])
    page = children(stand)
    names = [state.path for state in page.environments]
    stand.done(drop("/l/c15", ""), new_environment("/l/c99"))
    while page.next_page_token:
        page = children(stand, page.next_page_token)
        names += [state.path for state in page.environments]
    assert names == [f"/l/c{n:02}" for n in range(25)]
    odd = children(stand, labels=(("odd", "1"),), prefix="c1")
    assert [state.path for state in odd.environments] == ["/l/c11", "/l/c13", "/l/c17", "/l/c19"]
    assert children(stand, labels=(("none", "1"),)).environments == []


def test_a_prefix_filters_entries_in_short_and_in_long_listings(stand: Stand) -> None:
    for size in (5, 1000):
        keys, token = [], ""
        while True:
            page = listing(stand, token, size, prefix="k01")
            keys += [key for key, _ in page.entries]
            token = page.next_page_token
            if not token:
                break
        assert keys == [f"k01{number}" for number in range(10)]

"""Listings: every page shows the revision of the first one, and tokens are good for one listing and one time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from env_server.model.environments import Access, Aggregate, Function, Gate, Grant
from env_server.model.errors import OutOfRange, Reason
from env_server.model.limits import Limits
from env_server.model.operations import Code, ListChildren, ListEntries, Query
from env_server.model.values import Json
from env_server.rpc.encode.values import encode_read
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


def test_a_token_of_before_a_restart_is_no_token_of_after_it(stand: Stand) -> None:
    before = listing(stand)
    for restart in (stand.reopen, lambda: (stand.stop(), stand.open())):
        restart()
        stand.done(put("/l", "k0000", "new"))
        after = listing(stand)
        assert after.next_page_token != before.next_page_token, "of the same number"
        error = stand.do(Op("/l", "", Code.QUERY, Query(ListEntries("", 10, before.next_page_token)))).error
        assert error.reason is Reason.PAGE_EXPIRED
        assert listing(stand, after.next_page_token).entries[0][0] == "k009"


def size_of(read: Any) -> int:
    return len(encode_read(read).SerializeToString())


def test_a_list_of_children_never_fails_for_its_size(stand: Stand) -> None:
    """Sixty children with schemas of 64 KiB, and such with all that one may declare."""
    schema = Json(json.dumps({"type": "object", "description": "x" * 65_000}).encode())
    bounds = tuple(float(number) for number in range(256))
    aggregates = tuple(Aggregate("a" * 120 + str(n), Function.HISTOGRAM, bounds=bounds) for n in range(16))
    labels = {f"{n:03}" + "ü" * 60: "ß" * 60 for n in range(64)}
    grants = tuple(Grant(f"/group/{n:03}/" + "/".join(["g" * 100] * 3), Access.READ) for n in range(64))
    gates = (Gate("gate", 1, 60_000),)
    stand.done(new_environment("/many"))
    for number in range(60):
        stand.done(
            new_environment(
                f"/many/c{number:02}", schema=schema, labels=labels, grants=grants, aggregates=aggregates, gates=gates
            )
        )
    seen, token = [], ""
    while True:
        page = stand.done(Op("/many", "", Code.QUERY, Query(ListChildren(page_size=10_000, page_token=token))))[0]
        assert size_of(page) <= Limits().message_bytes_max
        seen += [state.path for state in page.environments]  # type: ignore[union-attr]
        token = page.next_page_token  # type: ignore[union-attr]
        if not token:
            break
    assert seen == [f"/many/c{number:02}" for number in range(60)]


def test_a_list_of_small_entries_far_down_never_fails_for_its_size(stand: Stand) -> None:
    path = ""
    for _ in range(3):
        path += "/" + "p" * 125
        stand.done(new_environment(path))
    stand.done(*[put(path, f"{number:05}" + "k" * 123, 0.5) for number in range(10_000)])
    seen, token = 0, ""
    while True:
        page = listing(stand, token, 10_000, path=path)
        assert size_of(page) <= Limits().message_bytes_max
        seen += len(page.entries)
        token = page.next_page_token
        if not token:
            break
    assert seen == 10_000


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

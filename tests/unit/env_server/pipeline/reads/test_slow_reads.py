"""Long listings: the right rows at one revision, piece by piece, within bounds, and nobody waits for them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_server.model.errors import DeadlineExceeded, Exhausted, Reason, WorldError
from env_server.model.frames import EntryPage, EnvironmentPage
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, ListChildren, ListEntries, Query
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.pipeline.reads import slow_reads
from env_server.state_tree.reads import listings, reads
from tests.engine import Op, Sent, Stand, drop, new_environment, put

COUNT = 40_000


def listing(prefix: str = "", size: int = 0, token: str = "", path: str = "/w") -> Op:
    return Op(path, "", Code.QUERY, Query(ListEntries(prefix, size, token)))


def children(prefix: str = "", labels: tuple[tuple[str, str], ...] = (), size: int = 0, token: str = "") -> Op:
    return Op("/w", "", Code.QUERY, Query(ListChildren(prefix, labels, size, token)))


def page_of(sent: Sent, index: int = 0) -> Any:
    outcome = sent.outcome(index)
    assert isinstance(outcome, EntryPage | EnvironmentPage), outcome
    return outcome


def fill(stand: Stand, count: int = COUNT) -> list[str]:
    """Entries in no order; their keys in order."""
    keys = [f"k{number * 7919 % count:06}" for number in range(count)]
    stand.done(new_environment("/w"))
    stand.done(*[put("/w", key, key) for key in keys])
    return sorted(keys)


def test_all_pages_are_in_order_at_one_revision_whatever_is_written_meanwhile() -> None:
    stand = Stand()
    keys = fill(stand)
    revision = stand.world.revision
    sent = stand.send(listing(size=10_000), put("/w", "k000001", "changed"), drop("/w", "k000002"), put("/w", "kx", 1))
    assert stand.world.revision == revision + 3, "the writes behind it have had their effect"
    steps = 0
    while not sent.done:
        stand.clock.step()
        steps += 1
        stand.send(put("/w", "k000003", f"meanwhile {steps}"))
    assert steps > 2
    found, page = [], page_of(sent)
    while True:
        assert page.revision == revision
        found += page.entries
        if not page.next_page_token:
            break
        page = page_of(stand.do(listing(size=10_000, token=page.next_page_token)))
    assert [key for key, _ in found] == keys
    assert all(entry.value == key for key, entry in found)


def test_a_listing_sees_what_its_frame_wrote_before_it_and_others_are_answered_first() -> None:
    stand = Stand()
    fill(stand)
    sent = stand.send(put("/w", "k000000", "mine"), listing(size=1), listing(prefix="none"))
    quick = stand.send(put("/w", "k000000", "later"))
    for _ in range(3):
        stand.clock.step()
    assert quick.done and not sent.done
    assert sent.parts[0].pending == [1, 2]
    stand.clock.settle()
    assert page_of(sent, 1).entries[0][1].value == "mine"
    assert page_of(sent, 2).entries == []


def test_listings_under_way_are_bounded_in_number_and_rows_and_make_room_when_they_end() -> None:
    stand = Stand(limits=Limits(slow_reads_max=3, slow_reads_rows_max=100_000))
    fill(stand)
    for limit in ("slow_reads_rows_max", "slow_reads_max"):
        sent = stand.send(*[listing(size=1)] * 4)
        stand.clock.settle()
        refused = [sent.outcome(index) for index in range(4) if isinstance(sent.outcome(index), WorldError)]
        assert [error.metadata["limit"] for error in refused] == [limit] * len(refused)  # type: ignore[union-attr]
        assert all(isinstance(error, Exhausted) and error.retry_delay_ms for error in refused)
        assert len(refused) == (2 if limit == "slow_reads_rows_max" else 1)
        stand.world._intake._execution._slow._limits = Limits(slow_reads_max=3)  # type: ignore[misc]


def test_a_deadline_ends_a_listing_that_is_not_answered_yet() -> None:
    stand = Stand()
    fill(stand)
    sent = stand.send(listing(), deadline_s=0.0001)
    stand.clock.advance(1)
    assert sent.done
    assert isinstance(sent.outcome(), EntryPage | DeadlineExceeded)
    slow = stand.world._intake._execution._slow
    assert (slow._under_way, slow._rows) == (0, 0)


def test_open_listings_are_bounded_in_rows_and_what_they_held_is_let_go() -> None:
    stand = Stand(limits=Limits(pages_rows_max=100_000))
    fill(stand)
    tokens = [page_of(stand.do(listing(size=1))).next_page_token for _ in range(3)]
    assert stand.do(listing(size=1, token=tokens[0])).error.reason is Reason.PAGE_EXPIRED
    assert page_of(stand.do(listing(size=1, token=tokens[2]))).entries
    stand.clock.advance(60)
    assert stand.do(listing(size=1, token=tokens[2])).error.reason is Reason.PAGE_EXPIRED
    stand.clock.settle()
    assert not stand.world._tree.remains


def test_a_listed_environment_may_be_deleted_meanwhile() -> None:
    stand = Stand()
    keys = fill(stand)
    sent = stand.send(listing(size=3))
    stand.send(Op("/w", "", Code.DELETE_ENVIRONMENT, Delete()))
    stand.clock.settle()
    assert [key for key, _ in page_of(sent).entries] == keys[:3]
    assert stand.do(listing()).error.reason is Reason.ENVIRONMENT_NOT_FOUND


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=30, unique=True), st.text("ab", max_size=2), st.data())
def test_slow_listings_say_what_quick_ones_do(names: list[str], prefix: str, data: st.DataObject) -> None:
    answers = []
    size = data.draw(st.integers(1, 5))
    labels = data.draw(st.sampled_from([(), (("x", "1"),)]))
    for at_once in (1 << 30, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reads, "AT_ONCE_MAX", at_once)
            patch.setattr(reads, "CHILDREN_AT_ONCE_MAX", at_once)
            patch.setattr(listings, "_SLICE", 3)
            stand = Stand()
            stand.done(new_environment("/w"))
            stand.do(*[put("/w", name, name) for name in names])
            stand.do(*[new_environment(f"/w/{name}", labels={"x": str(len(name) % 2)}) for name in names])
            stand.do(put("/w/" + names[0], "k", 1)) if names else None
            answers.append([*pages(stand, prefix, size), *pages(stand, prefix, size, labels)])
    assert answers[0] == answers[1]


def pages(stand: Stand, prefix: str, size: int, labels: Any = None) -> list[Any]:
    told, token = [], ""
    while True:
        op = listing(prefix, size, token) if labels is None else children(prefix, labels, size, token)
        page = page_of(stand.do(op))
        told.append((page.entries if labels is None else page.environments, page.revision, bool(page.next_page_token)))
        token = page.next_page_token
        if not token:
            return told


def test_slow_reads_take_turns_one_step_of_one_of_them_a_loop_step(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    keys = fill(stand)
    sent = stand.send(*[listing(size=1)] * 20)
    steps: list[object] = []
    step = slow_reads._Reading.step
    monkeypatch.setattr(slow_reads._Reading, "step", lambda reading: (steps.append(reading), step(reading))[1])
    loop_steps = 0
    while not sent.done:
        before = len(steps)
        stand.clock.step()
        assert len(steps) <= before + 1, "they would hold up everybody else by the sum of their steps"
        loop_steps += 1
    assert len(set(steps[:20])) == 20, "each has its turn"
    assert loop_steps > 40
    assert {page_of(sent, index).entries[0][0] for index in range(20)} == {keys[0]}
    assert stand.world._slow.under_way == 0


def test_what_was_answered_late_is_let_go_at_once() -> None:
    """A run whose ops waited knew itself: all that it had answered stayed until a collection, a megabyte a table."""
    stand = Stand()
    fill(stand)
    gc.collect()
    gc.disable()
    try:
        for seq in range(1, 4):
            assert page_of(stand.do(listing(size=10_000), client_id="c", seq=seq)).entries
        assert not [found for found in gc.get_objects() if isinstance(found, FrameRun | EntryPage)]
    finally:
        gc.enable()

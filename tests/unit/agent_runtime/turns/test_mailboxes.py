"""Mailboxes against a dictionary of lists."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import numpy as np

from agent_runtime.model.notices import Notice
from agent_runtime.turns.mailboxes import Admission, Mailboxes


def notice(revision: int) -> Notice:
    return Notice(revision, (), 0.0, None, None)


def test_mailboxes_behave_as_a_bounded_queue_an_agent(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        agents, depth = chance.randint(1, 5), chance.randint(1, 3)
        boxes = Mailboxes(agents, depth)
        running: dict[int, int] = {}
        queued: dict[int, deque[int]] = defaultdict(deque)
        turns: dict[int, int] = defaultdict(int)
        revision = 0
        for _ in range(40):
            step = chance.random()
            if step < 0.35:
                revision += 1
                starts, refused = boxes.admit_all(notice(revision))
                for row in range(agents):
                    expect_admission(row, revision, running, queued, turns, depth, starts.tolist(), refused.tolist())
            elif step < 0.6:
                revision += 1
                row = chance.randrange(agents)
                admission = boxes.admit_one(row, notice(revision))
                assert boxes.admit_one(row, notice(revision)) is Admission.KNOWN
                started, refused_rows = (
                    [row] * (admission is Admission.STARTS),
                    [row] * (admission is Admission.REFUSED),
                )
                expect_admission(row, revision, running, queued, turns, depth, started, refused_rows)
            elif step < 0.7:
                revision += 1
                some = chance.sample(range(agents), chance.randint(1, agents))
                starts = boxes.admit_wakes(np.array(some, dtype=np.int32), notice(revision))
                assert starts.tolist() == [row for row in some if row not in running], "in their order"
                for row in some:
                    bound = len(queued[row]) + 1  # wakes are never refused
                    expect_admission(row, revision, running, queued, turns, bound, starts.tolist(), [])
            elif running and step < 0.8:
                row = chance.choice(list(running))
                following = boxes.release_one(row)
                expect_release(row, following.revision if following else None, running, queued, turns)
            elif running:
                rows = sorted(chance.sample(list(running), chance.randint(1, len(running))))
                begun = {
                    row: told.revision
                    for told, chosen in boxes.release_many(np.array(rows, dtype=np.int32))
                    for row in chosen.tolist()
                }
                for row in rows:
                    expect_release(row, begun.get(row), running, queued, turns)
            assert boxes.turns.tolist() == [turns[row] for row in range(agents)]
            assert boxes.busy.tolist() == [row in running for row in range(agents)]
            assert boxes.waiting.tolist() == [len(queued[row]) for row in range(agents)]
            # A broadcast holds a mask of all rows, and every release looks through them: none is kept without need.
            assert len(boxes._broadcasts) <= sum(map(len, queued.values()))


def expect_admission(
    row: int,
    revision: int,
    running: dict[int, int],
    queued: dict[int, deque[int]],
    turns: dict[int, int],
    depth: int,
    starts: list[int],
    refused: list[int],
) -> None:
    assert (row in starts) == (row not in running)
    assert (row in refused) == (row in running and len(queued[row]) >= depth)
    if row in starts:
        running[row] = revision
        turns[row] += 1
    elif row in refused:
        turns[row] += 1
    else:
        queued[row].append(revision)


def expect_release(
    row: int, told: int | None, running: dict[int, int], queued: dict[int, deque[int]], turns: dict[int, int]
) -> None:
    del running[row]
    expected = queued[row].popleft() if queued[row] else None
    assert told == expected
    if expected is not None:
        running[row] = expected
        turns[row] += 1


def test_a_notice_for_everyone_skips_who_had_one_of_the_same_revision() -> None:
    boxes = Mailboxes(3, 4)
    assert boxes.admit_one(1, notice(5)) is Admission.STARTS
    starts, refused = boxes.admit_all(notice(5))
    assert (starts.tolist(), refused.tolist()) == ([0, 2], [])
    assert boxes.release_one(1) is None


def test_a_row_that_was_never_woken_costs_at_most_twenty_bytes() -> None:
    boxes = Mailboxes(1000, 4)
    assert boxes.turns.nbytes + boxes.busy.nbytes + boxes.waiting.nbytes + boxes._noticed.nbytes <= 20_000


def test_notices_that_meet_full_mailboxes_leave_nothing() -> None:
    """A model that hangs, and an event that ticks: a mask of all rows a tick is a megabyte of a million agents."""
    boxes = Mailboxes(3, 2)
    for revision in range(1, 100):
        boxes.admit_all(notice(revision))
        assert len(boxes._broadcasts) <= 2
    for _ in range(3):
        boxes.release_many(np.arange(3, dtype=np.int32))
    assert not boxes._broadcasts and not boxes._letters and not boxes.busy.any()

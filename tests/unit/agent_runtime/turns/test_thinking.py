"""Deadlines of many rows: nobody early, nobody lost."""

from __future__ import annotations

import random

import numpy as np

from agent_runtime.llm.latency import LATENCY_STREAM, LognormalLatency
from agent_runtime.model.draws import Draw
from agent_runtime.model.notices import Notice
from agent_runtime.turns.thinking import NEVER_S, ThinkingRows, draw_delays_ms, join_alike

NOTICE = Notice(1, (), 0.0, None, None)


def test_every_row_is_done_once_and_never_early(seed: int) -> None:
    chance = random.Random(seed)
    thinking = ThinkingRows()
    due: dict[int, float] = {}
    for start in range(0, 5000, 500):
        rows = np.arange(start, start + 500, dtype=np.int32)
        delays = np.array([chance.uniform(0, 3000) for _ in rows])
        thinking.add(NOTICE, start / 1000, rows, rows + 1, delays)
        due.update(zip(rows.tolist(), (start / 1000 + delays / 1000).tolist(), strict=True))
    done: dict[int, float] = {}
    now_s = 0.0
    while thinking.next_due_s != NEVER_S:
        now_s = max(now_s + 0.005, thinking.next_due_s)
        for thinkers in thinking.take_due(now_s):
            assert (thinkers.turns == thinkers.rows + 1).all()
            assert not done.keys() & set(thinkers.rows.tolist())
            done.update(dict.fromkeys(thinkers.rows.tolist(), now_s))
    assert done.keys() == due.keys()
    assert all(due[row] <= done[row] <= due[row] + 0.0051 for row in due)


def test_rows_that_think_equally_long_are_done_together_in_their_order() -> None:
    thinking = ThinkingRows()
    thinking.add(NOTICE, 1.0, np.arange(3, dtype=np.int32), np.ones(3, dtype=np.int32), 1000.0)
    assert thinking.take_due(1.999) == []
    (done,) = thinking.take_due(2.0)
    assert done.rows.tolist() == [0, 1, 2]
    assert thinking.next_due_s == NEVER_S


def test_those_who_are_done_about_one_event_are_one_column_whenever_they_began(seed: int) -> None:
    chance = random.Random(seed)
    notices = [Notice(revision, (), 0.0, None, None) for revision in (1, 2)]
    thinking = ThinkingRows()
    began: dict[tuple[int, int], tuple[float, float]] = {}
    for row in range(0, 600, 3):
        rows, now_s = np.arange(row, row + 3, dtype=np.int32), row / 1000
        notice = chance.choice(notices)
        delays = np.array([chance.uniform(0, 900) for _ in rows])
        thinking.add(notice, now_s, rows, rows + 1, delays)
        for place, delay in zip(rows.tolist(), delays.tolist(), strict=True):
            began[notice.revision, place] = now_s, now_s + delay / 1000
    joined = join_alike(thinking.take_due(0.7))
    assert sorted(thinkers.notice.revision for thinkers in joined) == [1, 2]
    done = {
        (thinkers.notice.revision, row): (started_s, due_s)
        for thinkers in joined
        for row, started_s, due_s in zip(
            thinkers.rows.tolist(), thinkers.started_s.tolist(), thinkers.due_s.tolist(), strict=True
        )
    }
    assert done == {name: times for name, times in began.items() if times[1] <= 0.7}
    assert all((thinkers.turns == thinkers.rows + 1).all() for thinkers in joined)


def test_a_rule_agent_thinks_as_long_as_a_scripted_model_of_its_seed() -> None:
    latency = LognormalLatency(1000.0, 0.5)
    delays = draw_delays_ms(latency, 7, ["ann", "bob"], [1, 2])
    assert delays.tolist() == [
        latency.sample_ms(Draw(7, "ann", 1, 0, LATENCY_STREAM)),
        latency.sample_ms(Draw(7, "bob", 2, 0, LATENCY_STREAM)),
    ]


def test_those_of_one_revision_who_are_woken_at_different_times_stay_apart() -> None:
    thinking = ThinkingRows()
    for row, at_ns in enumerate((5, 7, 5)):
        notice = Notice(1, (), 0.0, at_ns, None, is_wake=True)
        thinking.add(notice, 0.0, np.array([row], dtype=np.int32), np.ones(1, dtype=np.int32), 0.0)
    joined = join_alike(thinking.take_due(1.0))
    assert sorted((one.notice.sim_time_ns, one.rows.tolist()) for one in joined) == [(5, [0]), (5, [2]), (7, [1])]

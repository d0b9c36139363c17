"""The timers of one environment on one clock: which is first, and what stays of those that are gone."""

from __future__ import annotations

import random

from env_server.model.timelines import Timer
from env_server.timeline.timer_queue import TimerQueue


def test_the_first_is_the_one_of_a_sorted_list(seed: int) -> None:
    chance, queue = random.Random(seed), TimerQueue()
    for order in range(3000):
        name = chance.choice("abcdefghij")
        if name in queue.by_name and chance.random() < 0.4:
            queue.drop(name)
        else:
            queue.put(Timer(name, chance.randrange(20), order))
        waiting = sorted(queue.by_name.values(), key=lambda timer: (timer.due_ns, timer.order))
        assert queue.first is (waiting[0] if waiting else None)
        assert len(queue) == len(waiting)


def test_places_of_timers_that_are_gone_do_not_pile_up() -> None:
    queue = TimerQueue()
    for order in range(10_000):
        queue.put(Timer("t", order, order))
        assert sum(map(len, queue.containers)) < 100

"""Waits grow to their bound, are spread over all of it, and never undercut the server's advice."""

from __future__ import annotations

import random

from ecumene.client.backoff import Backoff


def test_the_bound_doubles_up_to_the_maximum_and_starts_over_after_a_success(seed: int) -> None:
    rounds = []
    for attempt in range(200):
        backoff = Backoff(10, 100, random.Random(seed + attempt))
        rounds.append([backoff.next_delay_s() for _ in range(6)])
        backoff.reset()
        assert backoff.next_delay_s() <= 0.010
    for number, bound_s in enumerate((0.010, 0.020, 0.040, 0.080, 0.100, 0.100)):
        waits = [waits[number] for waits in rounds]
        assert max(waits) <= bound_s
        assert min(waits) < bound_s * 0.2
        assert max(waits) > bound_s * 0.8


def test_advice_is_added_to_so_that_a_crowd_spreads_behind_it(seed: int) -> None:
    backoff = Backoff(10, 100, random.Random(seed))
    assert 1.5 <= backoff.next_delay_s(1.5) <= 1.51

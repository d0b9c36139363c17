"""Local flows: bounds of slots, waits, results, calls and their bytes."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ecumene import workflows
from ecumene.workflows import FlowLimits, StageLimits

from tests.workflow_actors import Teller

QUICK = StageLimits(circle_check_s=0.05)


@pytest.fixture
def flow() -> Iterator[workflows.Flow]:
    """An open local flow, for blocking code."""
    with workflows.local(stage_limits=QUICK) as flow:
        yield flow


def test_nested_calls_beyond_the_slots_do_not_hang() -> None:
    limits = StageLimits(blocking_running_max=1, blocking_waiting_max=100)
    with workflows.local(stage_limits=limits):
        *tellers, last = workflows.spawn(Teller, 9)
        for teller in tellers:
            teller.tell("warm")
        chain: list[Any] = [last, "tell", "deep"]
        for teller in tellers[1:]:
            chain = [teller, "ask", *chain]
        assert tellers[0].ask(*chain).get(timeout_s=20) == "deep"


def test_more_waits_than_may_are_refused() -> None:
    limits = StageLimits(blocking_running_max=1, blocking_waiting_max=2)
    with workflows.local(stage_limits=limits):
        one, two, three, four = workflows.spawn(Teller, 4)
        with pytest.raises(workflows.WaitLimitError, match="blocking_waiting_max is 2"):
            one.ask(two, "ask", three, "ask", four, "sleep", 0.2).get(timeout_s=20)


def test_results_go_with_their_placeholders(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    kept = [teller.tell("x" * 1000) for _ in range(100)]
    workflows.resolve(kept)
    assert flow.statistics().results >= 100
    assert flow.statistics().results_bytes >= 100_000
    del kept
    gc.collect()
    assert teller.tell(1).get() == 1
    assert flow.statistics().results <= 2
    assert flow.statistics().results_bytes < 100


def test_the_number_of_results_is_bounded_and_that_is_told() -> None:
    with workflows.local(limits=FlowLimits(results_max=20)) as flow:
        teller = Teller().to_dist()
        kept = []
        with pytest.raises(workflows.FlowFullError, match="results_max is 20"):
            kept.extend(teller.tell(number) for number in range(100))
        assert workflows.resolve(kept) == list(range(len(kept)))
        kept.clear()
        gc.collect()
        deadline = time.monotonic() + 10
        while flow.statistics().results and time.monotonic() < deadline:
            time.sleep(0.01)
        assert teller.tell("room again").get() == "room again"


def test_the_bytes_of_results_are_bounded_and_the_oldest_expire() -> None:
    with workflows.local(limits=FlowLimits(results_bytes_max=10_000)) as flow:
        teller = Teller().to_dist()
        kept = []
        for number in range(20):
            kept.append(teller.tell(f"{number}" * 1000))
            assert kept[-1].get()
        assert flow.statistics().expired > 0
        assert flow.statistics().results_bytes <= 10_000
        assert kept[-1].get().startswith("19")
        # What was read is here; what travels has expired, and says so.
        with pytest.raises(workflows.ResultExpiredError, match="results_bytes_max is 10000"):
            teller.tell(kept[0])
        with pytest.raises(workflows.ResultExpiredError, match="was dropped"):
            kept[0].get()


def test_calls_beyond_the_stages_bounds_are_refused() -> None:
    limits = StageLimits(calls_waiting_max=3, actors_max=2)
    with workflows.local(stage_limits=limits):
        teller, _, third = workflows.spawn(Teller, 3)
        calls = [teller.sleep(0.1) for _ in range(10)]
        refused = 0
        for call in calls:
            try:
                call.get()
            except workflows.CallRefusedError as error:
                assert "calls_waiting_max is 3" in str(error)
                refused += 1
        assert 0 < refused < 10
        with pytest.raises(workflows.CallRefusedError, match=r"actors_max is 2|calls_waiting_max is 3"):
            third.tell(1).get()


def test_arguments_that_take_too_much_room_are_refused() -> None:
    with workflows.local(stage_limits=StageLimits(calls_bytes_max=50_000)):
        one, two = workflows.spawn(Teller, 2)
        parts = [one.make_bytes(10_000) for _ in range(10)]
        with pytest.raises(workflows.CallRefusedError, match="calls_bytes_max, 50000 bytes"):
            two.tell(parts).get()
        assert two.tell("room again").get() == "room again"


def test_a_deep_chain_and_a_wide_fan_in_finish(flow: workflows.Flow, seed: int) -> None:
    chance = random.Random(seed)
    tellers = workflows.spawn(Teller, 5)
    value = tellers[0].add(0)
    for _ in range(1000):
        value = chance.choice(tellers).add(value, 1)
    assert value.get() == 1000
    wide = [chance.choice(tellers).add(number) for number in range(10_000)]
    assert tellers[0].total(wide).get() == sum(range(10_000))

"""Limits of a minute, as an endpoint counts that sees requests at any moment of their way."""

from __future__ import annotations

import random

import pytest

from agent_runtime.llm import ModelRateError
from agent_runtime.llm.admission import Load, Permit, RateWindow
from agent_runtime.llm.admission.rate_window import TRANSIT_S
from agent_runtime.llm.endpoints import Endpoint
from tests.model_endpoint import count_most
from tests.unit.agent_runtime.llm.providers_of_tests import Silent


def enter(window: RateWindow, load: Load, now_s: float) -> Permit | None:
    if window.wait_s(load, now_s) != 0.0:
        return None
    permit = Permit(Endpoint(Silent()), load.tokens, load.microdollars, now_s)
    window.admit(permit)
    return permit


def leave(window: RateWindow, permit: Permit, load: Load, now_s: float) -> None:
    permit.released_s = now_s
    window.settle(permit, load)
    permit.tokens = load.tokens


@pytest.mark.parametrize("latency_s", [0.01, 1.0, 20.0, 100.0])
def test_no_minute_of_the_endpoint_sees_more_and_nearly_all_is_used(latency_s: float, seed: int) -> None:
    chance = random.Random(seed)
    window = RateWindow("m", requests_per_minute=40, tokens_per_minute=8_000)
    arrivals: list[tuple[float, int]] = []
    out: list[tuple[float, Permit, int]] = []
    now_s, end_s = 1000.0, 1000.0 + 20 * 60
    while now_s < end_s:
        for entry in [entry for entry in out if entry[0] <= now_s]:
            out.remove(entry)
            leave(window, entry[1], Load(entry[2]), entry[0])
        load = Load(chance.randint(150, 400))
        permit = enter(window, load, now_s)
        if permit is None:
            wait_s = window.wait_s(load, now_s)
            assert wait_s is not None
            now_s = min([now_s + max(wait_s, 0.001), *(at_s for at_s, _, _ in out)])
            continue
        took_s = latency_s * chance.uniform(0.5, 1.5)
        used = chance.randint(100, load.tokens)
        # Counted anywhere between its leaving and its answer, but within its transit: at either end, at the worst.
        arrivals.append((now_s + chance.choice((0.0, min(took_s, TRANSIT_S))), used))
        out.append((now_s + took_s, permit, used))
    requests, tokens = count_most(arrivals)
    assert requests <= 40
    assert tokens <= 8_000
    minutes = (end_s - 1000.0) / 60
    use = max(len(arrivals) / (40 * minutes), sum(used for _, used in arrivals) / (8_000 * minutes))
    # Long calls reserve what they may still use.
    assert use >= (0.9 if latency_s <= 1 else 0.5), use


def test_tokens_are_reserved_as_estimated_and_corrected_by_the_answer() -> None:
    window = RateWindow("m", tokens_per_minute=1000)
    permit = enter(window, Load(900), 0.0)
    assert permit is not None
    assert enter(window, Load(200), 0.5) is None
    leave(window, permit, Load(100), 1.0)
    assert enter(window, Load(900), 1.0) is not None
    assert enter(window, Load(1), 1.0) is None


def test_an_answer_after_the_minute_corrects_nothing_twice() -> None:
    window = RateWindow("m", tokens_per_minute=1000)
    permit = enter(window, Load(1000), 0.0)
    assert permit is not None
    assert enter(window, Load(1000), 62.0) is None
    assert enter(window, Load(1000), 62.1) is not None
    leave(window, permit, Load(10), 63.0)
    assert enter(window, Load(1), 63.0) is None


def test_the_wait_ends_when_enough_is_free() -> None:
    window = RateWindow("m", tokens_per_minute=1000)
    for at_s, tokens in ((0.0, 100), (10.0, 500), (20.0, 400)):
        permit = enter(window, Load(tokens), at_s)
        assert permit is not None
        leave(window, permit, Load(tokens), at_s)
    assert window.wait_s(Load(600), 30.0) == pytest.approx(40.0, abs=0.1)
    assert window.wait_s(Load(700), 30.0) == pytest.approx(50.0, abs=0.1)


def test_a_request_larger_than_a_minute_is_refused_at_once() -> None:
    with pytest.raises(ModelRateError, match="1001 tokens, more than the 1000"):
        RateWindow("m", tokens_per_minute=1000).wait_s(Load(1001), 0.0)

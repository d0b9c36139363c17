"""The quota: no minute sees more, whoever takes, dies or comes back; nearly all of it can be used; in turn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from env_server.behaviours.quota import MINUTE_MS, TRANSIT_MS, TTL_MS, Quota
from env_server.model.errors import OperationRefused
from env_server.testing import BehaviourStand, behaviour_stand

PATH = "/quota"


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(Quota) as stand:
        yield stand


def take(stand: BehaviourStand, member: str, requests: int = 1, tokens: int = 0, least: int = 0, **more: Any) -> Any:
    return stand.invoke(PATH, "take", member=member, requests=requests, tokens=tokens, least_tokens=least, **more)


def count_most(sent: list[tuple[float, int]], window_s: float = MINUTE_MS / 1000) -> int:
    return max(sum(count for at, count in sent if start <= at < start + window_s) for start, _ in sent)


def test_no_minute_sees_more_when_takers_use_shares_at_the_last_moment_or_never(
    stand: BehaviourStand, seed: int
) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 30})
    chance = random.Random(seed)
    sent: list[tuple[float, int]] = []
    now_s = 0.0
    for _ in range(600):
        member = chance.choice("abc")
        share = take(stand, member, chance.randint(1, 12))
        if share["requests"] and chance.random() < 0.8:  # else the taker dies with it
            # Anything from at once to the last moment, and as late on its way as may be.
            at_s = now_s + chance.uniform(0, (TTL_MS + TRANSIT_MS) / 1000)
            sent.append((at_s, share["requests"]))
        step_s = chance.uniform(0.05, 0.9)
        stand.advance(step_s)
        now_s += step_s
    assert count_most(sent) <= 30


def test_nearly_all_of_a_limit_is_used_under_load(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 600, "tokens_per_minute": 60_000})
    used, now_s = 0, 0.0
    while now_s < 180:
        share = take(stand, "abcd"[round(now_s * 10) % 4], 20, 2000, 100)
        used += share["tokens"]
        stand.advance(0.1)
        now_s += 0.1
    assert used / (60_000 * 3) >= 0.9


def test_what_is_given_back_can_be_taken_again_at_once(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 10, "tokens_per_minute": 1000})
    share = take(stand, "a", 10, 1000, 100)
    assert (share["requests"], share["tokens"]) == (10, 1000)
    refused = take(stand, "a", 1, 100, 100)
    assert refused["requests"] == 0
    assert refused["wait_ms"] >= MINUTE_MS
    again = take(stand, "a", 10, 900, 100, unused=[[share["share"], 4, 700]])
    assert (again["requests"], again["tokens"]) == (4, 700)


def test_tokens_used_in_excess_count(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"tokens_per_minute": 1000})
    share = take(stand, "a", 1, 500, 500)
    stand.invoke(PATH, "give_back", unused=[[share["share"], 0, -300]])
    assert take(stand, "a", 1, 300, 300)["requests"] == 0
    assert take(stand, "a", 1, 200, 200)["tokens"] == 200


def test_who_has_waited_is_served_before_others_take_more(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 2, "tokens_per_minute": 1000})
    first = take(stand, "a", 2, 1000, 500)
    assert take(stand, "large", 1, 800, 800)["requests"] == 0
    # What comes free goes to whoever waits, although a small taker asks first.
    stand.invoke(PATH, "give_back", unused=[[first["share"], 1, 800]])
    assert take(stand, "small", 1, 100, 100)["requests"] == 0
    assert take(stand, "large", 1, 800, 800)["tokens"] == 800


def test_a_crowd_shares_what_is_free(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 100})
    for member in "abcd":
        take(stand, member, 1)
    assert take(stand, "a", 100)["requests"] == 24


def test_a_request_larger_than_the_minute_is_refused(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"tokens_per_minute": 1000})
    with pytest.raises(OperationRefused) as caught:
        take(stand, "a", 1, 2000, 1001)
    assert caught.value.metadata == {"code": "too_large", "tokens": "1000"}


def test_a_server_that_starts_anew_forgets_nothing_and_begins_the_minute_anew() -> None:
    with behaviour_stand(Quota) as stand:
        stand.register(PATH, kind="quota", config={"requests_per_minute": 10, "tokens_max": 100})
        assert take(stand, "a", 10)["requests"] == 10
        stand.invoke(PATH, "draw", tokens=60, microdollars=0)
        stand.advance(30)
        stand.kill_and_restart()
        # The clock of another process cannot be compared with this one's.
        window = stand.get(PATH, "window")
        stand.set(PATH, "window", {**window, "process": "another"})
        assert take(stand, "a", 1)["requests"] == 0
        stand.advance(40)
        assert take(stand, "a", 1)["requests"] == 0
        stand.advance(25)
        assert take(stand, "a", 1)["requests"] == 1
        assert stand.invoke(PATH, "draw", tokens=60, microdollars=0, least_tokens=1)["tokens"] == 40


def test_a_budget_is_drawn_once_and_what_is_given_back_can_be_drawn(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"tokens_max": 1000, "microdollars_max": 50})
    assert stand.invoke(PATH, "draw", tokens=700, microdollars=10) == {"tokens": 700, "microdollars": 10}
    assert stand.invoke(PATH, "draw", tokens=700, microdollars=10) == {"tokens": 300, "microdollars": 10}
    nothing = {"tokens": 0, "microdollars": 0}
    assert stand.invoke(PATH, "draw", tokens=10, microdollars=10, least_tokens=5) == nothing
    assert stand.invoke(PATH, "draw", tokens=0, microdollars=90, least_microdollars=31) == nothing
    stand.invoke(PATH, "give_back", tokens=200, microdollars=10)
    assert stand.invoke(PATH, "draw", tokens=500, microdollars=90) == {"tokens": 200, "microdollars": 40}


def test_state_that_somebody_else_wrote_is_refused(stand: BehaviourStand) -> None:
    stand.register(PATH, kind="quota", config={"requests_per_minute": 1})
    stand.set(PATH, "window", {"slots": "none"})
    with pytest.raises(OperationRefused) as caught:
        take(stand, "a")
    assert caught.value.metadata["code"] == "foreign_state"

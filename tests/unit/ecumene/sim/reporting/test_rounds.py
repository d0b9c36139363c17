"""The figures of a round are exact, and failed turns are counted and in no mean."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
from ecumene.sim.reporting import read_guess_recording, summarise_rounds

TURNS = [
    ("a", 1, "ok", 0.0, True),
    ("b", 1, "fallback", 30.0, True),
    ("c", 1, "ok", 60.0, True),
    ("d", 1, "parse_error", None, False),
    ("a", 2, "timeout", None, False),
    ("b", 2, "timeout", None, False),
]


def test_a_round_is_counted_by_hand(record_run: Any) -> None:
    one, two = summarise_rounds(read_guess_recording(record_run(TURNS)), ratio=2 / 3, told={1: 20.0})
    assert (one.turns, one.reported, one.mean, one.median, one.std) == (4, 3, 30.0, 30.0, 30.0)
    assert one.statuses == {"ok": 2, "fallback": 1, "parse_error": 1}
    assert one.failed == {"parse_error": 1}
    assert (one.target, one.told) == (20.0, 20.0)
    assert (list(one.winners), one.winner_count, one.winner_number) == (["b"], 1, 30.0)
    assert one.flags == {"wrong_product": 1}
    assert (two.turns, two.reported, two.mean, two.target, two.failed) == (2, 0, None, None, {"timeout": 2})
    assert (two.winners, two.winner_number) == ((), None)


def test_all_who_tie_win_and_a_few_are_named(record_run: Any) -> None:
    turns = [(f"agent-{place}", 1, "ok", 20.0 if place else 40.0, True) for place in range(9)]
    (row,) = summarise_rounds(read_guess_recording(record_run(turns)), ratio=1.0)
    assert row.winner_count == 8
    assert list(row.winners) == [f"agent-{place}" for place in range(1, 6)]


@pytest.mark.parametrize(("ratio", "offset"), [(2 / 3, 0.0), (0.5, 5.0)])
def test_the_target_is_ratio_times_the_exact_mean(record_run: Any, ratio: float, offset: float, seed: int) -> None:
    chance = random.Random(seed)
    numbers = [chance.random() * 10 ** chance.randrange(-12, 3) for _ in range(2_000)]
    turns = [(f"agent-{place}", 1, "ok", number, True) for place, number in enumerate(numbers)]
    (row,) = summarise_rounds(read_guess_recording(record_run(turns)), ratio=ratio, offset=offset)
    assert row.target == ratio * (math.fsum(numbers) / 2_000) + offset
    assert row.std == pytest.approx(statistics.stdev(numbers), rel=1e-9)
    assert row.median == statistics.median(numbers)


def test_the_same_rows_in_another_order_give_the_same_figures(record_run: Any, seed: int) -> None:
    chance = random.Random(seed)
    turns = [(f"agent-{place}", 1, "ok", chance.random() * 100, True) for place in range(500)]
    # Two that are as far from the target, on either side of it: the first by name is the one that is shown.
    mean = math.fsum(turn[3] for turn in turns) / 500
    turns += [("agent-x", 1, "ok", mean - 1e-3, True), ("agent-w", 1, "ok", mean + 1e-3, True)]
    rows = []
    for name in ("one", "other"):
        chance.shuffle(turns)
        rows += summarise_rounds(read_guess_recording(record_run(turns, name=name)), ratio=1.0)
    assert rows[0] == rows[1]


def test_where_groups_play_the_target_is_that_of_their_means_and_a_group_wins(record_run: Any) -> None:
    numbers = {"a": 30.0, "b": 40.0, "c": 48.08, "d": 21.14, "e": 40.75, "stranger": 100.0}
    turns = [(agent, 1, "ok", number, True) for agent, number in numbers.items()]
    teams = {"a": "Llama", "b": "Llama", "c": "Llama", "d": "Mistral", "e": "Qwen"}
    (row,) = summarise_rounds(read_guess_recording(record_run(turns)), ratio=2 / 3, teams=teams)
    assert row.groups == pytest.approx({"Llama": 39.36, "Mistral": 21.14, "Qwen": 40.75})
    assert row.target == pytest.approx(22.5)
    assert (list(row.winners), row.winner_number) == (["Mistral"], 21.14)

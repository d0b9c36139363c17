"""Only numbers that took effect count, and each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ecumene.sim.reporting import ReportError, read_guess_recording
from ecumene.sim.reporting.numbers import keep_last


def test_only_committed_numbers_of_rounds_are_read(record_run: object) -> None:
    directory = record_run(  # type: ignore[operator]
        [("a", 1, "ok", 10.0, True), ("b", 1, "ok", 99.0, False), ("c", 1, "timeout", None, False)]
    )
    recording = read_guess_recording(directory)
    assert recording.numbers.tolist() == [10.0]
    assert [recording.agents[agent] for agent in recording.number_agents] == ["a"]
    assert [recording.statuses[code] for code in recording.turn_statuses] == ["ok", "ok", "timeout"]
    assert recording.models == []


def test_a_turn_that_was_recorded_twice_counts_once_and_the_later_part_is_right(record_run: object) -> None:
    record_run([("a", 1, "error", None, True), ("b", 1, "ok", 20.0, True)])  # type: ignore[operator]
    directory = record_run([("a", 1, "ok", 30.0, True), ("b", 1, "ok", 20.0, True)])  # type: ignore[operator]
    recording = read_guess_recording(directory)
    assert sorted(recording.numbers.tolist()) == [20.0, 30.0]
    assert [recording.statuses[code] for code in recording.turn_statuses] == ["ok", "ok"]


def test_a_directory_without_turns_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no turns of any round"):
        read_guess_recording(tmp_path)


def test_the_last_of_equal_keys_is_kept_in_order(seed: int) -> None:
    chance = np.random.default_rng(seed)
    agents, numbers = chance.integers(0, 20, 500), chance.integers(1, 9, 500)
    last = {key: place for place, key in enumerate(zip(agents.tolist(), numbers.tolist(), strict=True))}
    assert keep_last(agents, numbers).tolist() == sorted(last.values())
    assert keep_last(agents[:0], numbers[:0]).tolist() == []


def test_of_equal_keys_the_one_of_the_highest_rank_is_kept() -> None:
    agents, numbers = np.array([0, 1, 0, 1]), np.array([1, 1, 1, 1])
    assert keep_last(agents, numbers, np.array([5, 5, -1, 6])).tolist() == [0, 3]

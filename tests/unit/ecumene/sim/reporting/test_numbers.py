"""Only numbers that took effect count, and each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.sim.reporting import ReportError, read_guess_recording


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

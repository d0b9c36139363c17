"""Rounds in a run's directory: what is noted comes back, and a line that a kill has cut short is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.client.records import ManifestError, TurnStatus
from ecumene.sim.rounds.guests import GuestTurn
from ecumene.sim.rounds.notes import ROUNDS_NAME, list_noted, note_round, take_up_rounds
from ecumene.sim.rounds.results import COUNT, RoundResult

GUEST = GuestTurn(
    turn=1,
    number=None,
    status=TurnStatus.TIMEOUT,
    reason="too late",
    opened_revision=3,
    opened_ns=1,
    ended_ns=2,
    commit_revision=None,
)


def make(number: int, **more: object) -> RoundResult:
    told = {"generation": number, "participants": 2, "reported": 1, "failed": 0, "mean": 20.5, "wall_s": 0.5}
    return RoundResult(round=number, gate_cause=COUNT, revision=9, **{**told, **more})  # type: ignore[arg-type]


def test_what_is_noted_comes_back(tmp_path: Path) -> None:
    assert take_up_rounds(tmp_path) == list(list_noted(tmp_path)) == []
    rounds = [
        make(1, guests={"ann": GUEST}, groups={"größte": None}),
        make(2, target=13.7, winner="b", figures={"told": [1, {"ü": None}], "until": "1h"}),
    ]
    for one in rounds:
        note_round(tmp_path, one)
    assert take_up_rounds(tmp_path) == rounds
    assert [noted["round"] for noted in list_noted(tmp_path)] == [1, 2]


def test_a_line_that_was_cut_short_is_taken_away_by_whoever_goes_on_alone(tmp_path: Path) -> None:
    note_round(tmp_path, make(1))
    path = tmp_path / ROUNDS_NAME
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert len(list(list_noted(tmp_path))) == 1
    assert path.read_bytes() != whole, "a report changes nothing"
    assert take_up_rounds(tmp_path) == [make(1)]
    assert path.read_bytes() == whole
    note_round(tmp_path, make(2))
    assert take_up_rounds(tmp_path) == [make(1), make(2)]


@pytest.mark.parametrize("line", ["[]", "7", "{}", '{"round": 1}', "no JSON", "[" * 100_000])
def test_a_whole_line_that_is_no_round_is_told_by_its_number_and_passed_over_by_reports(
    tmp_path: Path, line: str
) -> None:
    note_round(tmp_path, make(1))
    with (tmp_path / ROUNDS_NAME).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    note = "line 2 is no round"
    with pytest.raises(ManifestError, match=note):
        take_up_rounds(tmp_path)
    assert [noted["round"] for noted in list_noted(tmp_path) if "mean" in noted] == [1]

"""What a report reads of interventions."""

from pathlib import Path
from typing import Any

from ecumene.sim.asking.intervention_records import (
    INTERVENTIONS_NAME,
    describe_intervention,
    find_rules,
    read_interventions,
    write_interventions,
)


def note(from_round: int, **what: Any) -> dict[str, Any]:
    told = {"name": "half", "moment": f"before round {from_round}", "cause": "", "did": "größer", "revision": 3}
    return {**told, "from_round": from_round, "deed": "rules", "what": what, "kind": "experiment"}


def test_rules_hold_from_their_round_on_until_they_are_changed_again(tmp_path: Path) -> None:
    write_interventions(tmp_path, [note(2, ratio=0.5), note(4, offset=5.0), note(5, ratio=0.75, offset=0.0)])
    assert find_rules(tmp_path, ratio=0.75, offset=0.0, rounds=5) == {2: (0.5, 0.0), 3: (0.5, 0.0), 4: (0.5, 5.0)}
    (first, *_) = read_interventions(tmp_path)
    assert "kind" not in first
    assert describe_intervention(first) == "intervention half, before round 2: größer"
    assert describe_intervention({**first, "cause": "mean below 3: 2"}).startswith(
        "intervention half, before round 2 (mean"
    )


def test_a_run_without_any_has_none_and_a_damaged_file_stops_no_report(tmp_path: Path) -> None:
    assert read_interventions(tmp_path) == [] and find_rules(tmp_path, ratio=1.0, offset=0.0, rounds=3) == {}
    (tmp_path / INTERVENTIONS_NAME).write_text("{", encoding="utf-8")
    assert read_interventions(tmp_path) == []

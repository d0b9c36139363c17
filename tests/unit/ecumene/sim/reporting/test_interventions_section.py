"""What was done to a run is told, and what was planned and never done."""

from __future__ import annotations

from pathlib import Path

from ecumene.sim.asking.intervention_records import write_interventions
from ecumene.sim.reporting.interventions_section import make_interventions_sections


def test_deeds_are_told_with_their_cause_and_what_was_left_undone(tmp_path: Path) -> None:
    done = {"name": "half", "moment": "before round 3", "from_round": 3, "cause": "", "did": "ratio 0.5"}
    write_interventions(tmp_path, [done, done | {"name": "rest", "cause": "mean below 20: 15"}])
    spec = {"interventions": [{"name": "half"}, {"name": "rest"}, {"name": "never"}]}
    (section,) = make_interventions_sections(tmp_path, spec)
    assert section.tables[0].rows[0] == ["half", "before round 3", "as planned", "ratio 0.5", "3"]
    assert section.tables[0].rows[1][2] == "mean below 20: 15"
    assert "never" in section.texts[-1]


def test_plans_alone_are_told_and_nothing_is_no_section(tmp_path: Path) -> None:
    (section,) = make_interventions_sections(tmp_path, {"interventions": [{"name": "never"}]})
    assert not section.tables
    assert make_interventions_sections(tmp_path, {}) == []
    assert make_interventions_sections(tmp_path, {"interventions": None}) == []

"""What a page tells of interventions: what was done to a run, when and why, and what was planned and not done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecumene.sim.asking.intervention_records import read_interventions
from ecumene.sim.reporting.page import PageSection, make_table


def make_interventions_sections(directory: Path, spec: Mapping[str, Any]) -> list[PageSection]:
    """The section of a run to which something was done, or was to be done."""
    done = read_interventions(directory)
    planned = spec.get("interventions") if isinstance(spec.get("interventions"), list) else []
    names = [str(one.get("name")) for one in planned or () if isinstance(one, Mapping)]
    left = [name for name in names if name not in {one.get("name") for one in done}]
    if not done and not left:
        return []
    rows = [
        (
            str(one.get("name")),
            str(one.get("moment")),
            str(one.get("cause") or "as planned"),
            str(one.get("did")),
            str(one.get("from_round") or "–"),
        )
        for one in done
    ]
    columns = ("intervention", "when", "because", "what it did", "first round that it could change")
    table = make_table("What was done", columns, rows, texts=5)
    texts = ["Done by the experiment itself, each once. Rounds are computed by the rules by which they were played."]
    if left:
        texts.append(f"Planned and not done, since their moment did not come: {', '.join(left)}.")
    return [PageSection("Interventions", texts, tables=[table] if rows else [])]

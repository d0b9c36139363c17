"""What a run has done to itself, in its directory: the notes of its world, for reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ecumene.client.records.whole_files import write_whole

INTERVENTIONS_NAME = "interventions.json"
TOLD = ("name", "moment", "from_round", "cause", "deed", "what", "did", "revision")
"""Of a note; `from_round`: the first round that it could have changed."""


def write_interventions(directory: Path, notes: Sequence[Mapping[str, Any]]) -> None:
    """Write what was done, all of it each time. Raises OSError."""
    told = [{name: note.get(name) for name in TOLD} for note in notes]
    write_whole(directory / INTERVENTIONS_NAME, json.dumps(told, indent=2, ensure_ascii=False) + "\n")


def read_interventions(directory: Path) -> list[dict[str, Any]]:
    """What a run has done to itself, in its order; nothing where nothing can be read."""
    try:
        told = json.loads((directory / INTERVENTIONS_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def describe_intervention(done: Mapping[str, Any]) -> str:
    """One on a line."""
    cause = f" ({done['cause']})" if done.get("cause") else ""
    return f"intervention {done['name']}, {done['moment']}{cause}: {done['did']}"


def find_rules(directory: Path, *, ratio: float, offset: float, rounds: int) -> dict[int, tuple[float, float]]:
    """Round -> ratio and offset, for the rounds that were played by other rules than these."""
    changes = [one for one in read_interventions(directory) if one.get("deed") == "rules"]
    found = {}
    for number in range(1, rounds + 1):
        rules = {"ratio": ratio, "offset": offset}
        for change in changes:
            if change["from_round"] <= number:
                rules |= change["what"]
        if rules != {"ratio": ratio, "offset": offset}:
            found[number] = (rules["ratio"], rules["offset"])
    return found

"""The rounds of a run that are over, in its directory: a line of JSON each, on the disk before anything else follows.

A kill may cut the last line short. A run that is gone on with takes it away, and plays that round to its end again;
a report passes over it, as over a line of another version.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ecumene.client.records import ManifestError, TurnStatus
from ecumene.sim.rounds.guests import GuestTurn
from ecumene.sim.rounds.results import RoundResult

ROUNDS_NAME = "rounds.jsonl"


def note_round(directory: Path, result: RoundResult) -> None:
    """Add a round: it is on the disk when this returns. Raises OSError."""
    with (directory / ROUNDS_NAME).open("ab") as file:
        file.write(json.dumps(dataclasses.asdict(result)).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def take_up_rounds(directory: Path) -> list[RoundResult]:
    """All rounds, for a run that is gone on with; a line that was cut short is taken away.

    Raises ManifestError: a whole line is no round; OSError.
    """
    path = directory / ROUNDS_NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        with path.open("r+b") as file:
            file.truncate(len(whole))
    rounds = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            rounds.append(_read_round(json.loads(line)))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ManifestError(path, f"line {number} is no round") from error
    return rounds


def list_noted(directory: Path) -> Iterator[dict[str, Any]]:
    """What was noted of each round, for reports: they change nothing, and a line that is no document is none.

    Raises OSError.
    """
    try:
        lines = (directory / ROUNDS_NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            noted = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(noted, dict):
            yield noted


def _read_round(noted: dict[str, Any]) -> RoundResult:
    guests = noted.get("guests") or {}
    turns = {name: GuestTurn(**{**turn, "status": TurnStatus(turn["status"])}) for name, turn in guests.items()}
    return RoundResult(**{**noted, "guests": turns})

"""Reads what a guess game left: who had a turn in which round, how it ended, which number counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ecumene.client.errors import EcumeneError
from ecumene.client.records import ACTIONS, TURNS
from ecumene.sim.rounds.plans import REPORT_ACTION

if TYPE_CHECKING:
    from ecumene.sim.recordings import Recording


class ReportError(EcumeneError):
    """A recording from which no report can be made."""


@dataclass(frozen=True)
class GuessRecording:
    """The turns and numbers of a guess game, in columns.

    Attributes:
        agents: ids; the columns `turn_agents` and `number_agents` hold places in it.
        statuses, flags: names; the columns `turn_statuses` and `turn_flags` hold places in them. Flags
            noticed together are one name, comma-separated; the empty one is nothing noticed.
        turn_rounds, turn_agents, turn_statuses, turn_flags: one element a turn.
        turn_latency_ms, turn_tokens: likewise; tokens sent and received.
        number_rounds, number_agents, numbers: one element for each number that took effect.
        models: the models that were asked; empty if only rules played.
        reasons: status -> the reason that most of its turns have, and how many; none for statuses without any.
    """

    agents: list[str]
    statuses: list[str]
    flags: list[str]
    turn_rounds: np.ndarray
    turn_agents: np.ndarray
    turn_statuses: np.ndarray
    turn_latency_ms: np.ndarray
    turn_tokens: np.ndarray
    turn_flags: np.ndarray
    number_rounds: np.ndarray
    number_agents: np.ndarray
    numbers: np.ndarray
    models: list[str]
    reasons: Mapping[str, tuple[str, int]]


def read_guess_recording(directory: Path, *, action: str = REPORT_ACTION) -> GuessRecording:
    """Read the turns in rounds, and the committed actions of a name, from a run's directory.

    A row that stands twice (a crash between write and commit) counts once, as in all that is read of a run. Raises
    ReportError if there are no turns, or a part cannot be read.
    """
    # Opening takes a tenth of a second, which a run's start need not wait for.
    from ecumene.sim.recordings import RecordingError, open_recording

    try:
        with open_recording([directory], (TURNS, ACTIONS)) as recording:
            return read_guess(recording, str(directory), action=action)
    except RecordingError as error:
        raise ReportError(str(error)) from error


def read_guess(recording: Recording, source: str, *, action: str = REPORT_ACTION) -> GuessRecording:
    """Likewise from an open recording; `source` names it. Raises ReportError if there are no turns, RecordingError."""
    turns = recording.ask_columns(
        "SELECT agent, round, status, latency_ms, prompt_tokens::BIGINT + completion_tokens AS tokens, "
        "coalesce(flags, '') AS flags, coalesce(model, '') AS model FROM turns WHERE round IS NOT NULL"
    )
    if len(turns) == 0:
        raise ReportError(f"{source}: no turns of any round are recorded here")
    numbers = recording.ask_columns(
        "SELECT agent, round, coalesce(value_double, value_int)::DOUBLE AS number FROM actions WHERE action = $action "
        "AND commit_revision IS NOT NULL AND round IS NOT NULL AND number IS NOT NULL",
        action=action,
    )
    agents, codes = _encode(pa.chunked_array([*turns["agent"].chunks, *numbers["agent"].chunks], pa.string()))
    statuses, status_codes = _encode(turns["status"])
    flags, flag_codes = _encode(turns["flags"])
    models, _ = _encode(turns["model"])
    return GuessRecording(
        agents=agents,
        statuses=statuses,
        flags=flags,
        turn_rounds=turns["round"].to_numpy(),
        turn_agents=codes[: len(turns)],
        turn_statuses=status_codes,
        turn_latency_ms=turns["latency_ms"].to_numpy(),
        turn_tokens=turns["tokens"].to_numpy(),
        turn_flags=flag_codes,
        number_rounds=numbers["round"].to_numpy(),
        number_agents=codes[len(turns) :],
        numbers=numbers["number"].to_numpy(),
        models=sorted(filter(None, models)),
        reasons=_read_reasons(recording),
    )


def _read_reasons(recording: Recording) -> dict[str, tuple[str, int]]:
    """The commonest reason of each status; of several, the first by name."""
    found: dict[str, tuple[str, int]] = {}
    for status, reason, count in recording.ask(
        "SELECT status, reason, count(*) AS n FROM turns WHERE round IS NOT NULL AND reason IS NOT NULL "
        "GROUP BY ALL ORDER BY n DESC, reason"
    ):
        found.setdefault(status, (reason, count))
    return found


def _encode(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The distinct texts of a column without nulls, and the place of each row's among them."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)

"""Reads what a guess game left: who had a turn in which round, how it ended, which number counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ecumene.client.errors import EcumeneError
from ecumene.client.records import ACTIONS, CUT_SHORT, TURNS, Table, TurnStatus, list_parts

REPORT_ACTION = "report"


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

    A row that stands twice (a crash between write and commit) counts once: the last that is not of a turn that was cut
    short, as in the digest of a run. Raises ReportError if there are no turns, or a part
    cannot be read.
    """
    columns = ["agent", "turn", "round", "status", "latency_ms", "prompt_tokens", "completion_tokens"]
    turns = read_parts(directory, TURNS, [*columns, "model", "flags", "reason", "wall_time_ns"])
    turns = turns.filter(pc.field("round").is_valid())
    if len(turns) == 0:
        raise ReportError(f"{directory}: no turns of any round are recorded here")
    actions = read_parts(
        directory,
        ACTIONS,
        ["agent", "turn", "seq", "round", "action", "value_double", "value_int", "commit_revision"],
    )
    counted = (pc.field("action") == action) & pc.field("commit_revision").is_valid() & pc.field("round").is_valid()
    actions = actions.filter(counted)
    actions = actions.append_column(
        "number", pc.coalesce(actions["value_double"], actions["value_int"].cast(pa.float64()))
    ).filter(pc.field("number").is_valid())
    ids = pa.chunked_array([*turns["agent"].chunks, *actions["agent"].chunks], pa.string()).combine_chunks()
    agents, codes = encode(ids)
    turn_codes, action_codes = codes[: len(turns)], codes[len(turns) :]
    cut_short = pc.and_(
        pc.equal(turns["status"].cast(pa.string()), TurnStatus.CANCELLED.value),
        pc.is_in(turns["reason"].cast(pa.string()), pa.array(CUT_SHORT)),
    )
    ranks = np.where(to_numpy(cut_short), -1, to_numpy(turns["wall_time_ns"].cast(pa.int64())))
    turn_rows = keep_last(turn_codes, to_numpy(turns["turn"]), ranks)
    action_rows = keep_last(action_codes, to_numpy(actions["turn"]) * 1_000 + to_numpy(actions["seq"]))
    statuses, status_codes = encode(turns["status"].cast(pa.string()).combine_chunks())
    flags, flag_codes = encode(turns["flags"].cast(pa.string()).fill_null("").combine_chunks())
    tokens = to_numpy(turns["prompt_tokens"]).astype(np.int64) + to_numpy(turns["completion_tokens"])
    return GuessRecording(
        agents=agents,
        statuses=statuses,
        flags=flags,
        turn_rounds=to_numpy(turns["round"])[turn_rows],
        turn_agents=turn_codes[turn_rows],
        turn_statuses=status_codes[turn_rows],
        turn_latency_ms=to_numpy(turns["latency_ms"])[turn_rows],
        turn_tokens=tokens[turn_rows],
        turn_flags=flag_codes[turn_rows],
        number_rounds=to_numpy(actions["round"])[action_rows],
        number_agents=action_codes[action_rows],
        numbers=to_numpy(actions["number"])[action_rows],
        models=sorted(model for model in turns["model"].cast(pa.string()).unique().to_pylist() if model),
        reasons=find_reasons(turns.take(turn_rows)),
    )


def find_reasons(turns: pa.Table) -> dict[str, tuple[str, int]]:
    """The commonest reason of each status; of several, the first by name."""
    told = turns.select(["status", "reason"]).filter(pc.field("reason").is_valid())
    columns = {name: told[name].cast(pa.string()) for name in told.column_names}
    counted = pa.table(columns).group_by(["status", "reason"]).aggregate([("reason", "count")])
    found: dict[str, tuple[str, int]] = {}
    for row in counted.sort_by([("reason_count", "descending"), ("reason", "ascending")]).to_pylist():
        found.setdefault(row["status"], (row["reason"], row["reason_count"]))
    return found


def read_parts(directory: Path, table: Table, columns: list[str]) -> pa.Table:
    """All closed parts of a table, some columns, in the order of their names. Raises ReportError."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    parts = []
    for part in list_parts(directory, table):
        try:
            parts.append(pq.read_table(part, columns=columns).cast(schema))
        except (pa.ArrowException, OSError) as error:  # of what is damaged, too
            raise ReportError(f"{part}: is damaged, or cannot be read: {error}") from error
    return pa.concat_tables(parts) if parts else schema.empty_table()


def encode(column: pa.Array) -> tuple[list[str], np.ndarray]:
    """The distinct texts of a column without nulls, and the place of each row's among them."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def keep_last(agents: np.ndarray, numbers: np.ndarray, ranks: np.ndarray | None = None) -> np.ndarray:
    """The places of the last row of each (agent, number), in order; with `ranks`, of that of the highest rank."""
    if len(agents) == 0:
        return np.empty(0, dtype=np.int64)
    keys = agents.astype(np.int64) * (int(numbers.max()) + 1) + numbers
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(keys))
    # Stable: the last of equal keys is the one that stood last, or has the highest rank.
    order = np.argsort(keys, kind="stable") if ranks is None else np.lexsort((ranks, keys))
    differs = np.diff(keys[order]) != 0
    return np.sort(order[np.append(differs, True)])


def to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """A column without nulls as one array."""
    return column.to_numpy()

"""One file a table, as CSV, JSON lines or Parquet: each fact once, in the order of its ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ecumene.client.records import TABLES, Table
from ecumene.client.records.whole_files import replace_whole
from ecumene.sim.recordings import Recording, Sweep, is_sweep, open_recording, quote, read_sweep

FORMATS = {
    "csv": (".csv", "FORMAT CSV, HEADER true"),
    "json": (".jsonl", "FORMAT JSON"),
    "parquet": (".parquet", "FORMAT PARQUET, COMPRESSION ZSTD"),
}
"""Format -> suffix, and what DuckDB is told. JSON is one object a line, so that it can be read as it comes."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written, and its rows."""

    table: str
    path: Path
    rows: int


def export_tables(directory: Path, out: Path, *, file_format: str, tables: Sequence[Table] = TABLES) -> list[Exported]:
    """Write tables of a run, or of all runs of a sweep, into a folder; returns what was written.

    Works on runs that were killed or go on: what is closed is exported. UTF-8; rows are in the order of their ids, so
    that two exports of the same rows are equal. A sweep's rows have `replicate` and the varied values as further
    columns. A file appears whole, replacing an older one, or not at all. Memory does not grow with the rows.
    Raises RecordingError, OSError.
    """
    sweep = read_sweep(directory) if is_sweep(directory) else None
    directories = [directory] if sweep is None else [run.directory for run in sweep.runs]
    out.mkdir(parents=True, exist_ok=True)
    with open_recording(directories, tables) as recording:
        if sweep is not None:
            recording.add_table("sweep_runs", _tabulate_runs(sweep))
        return [_export(recording, table, out, file_format, is_sweep=sweep is not None) for table in tables]


def _export(recording: Recording, table: Table, out: Path, file_format: str, *, is_sweep: bool) -> Exported:
    suffix, options = FORMATS[file_format]
    target = out / f"{table.name}{suffix}"
    source = quote(table.name)
    if is_sweep:
        source += " JOIN sweep_runs USING (run)"
    order = ", ".join(map(quote, table.ids))
    with replace_whole(target) as unfinished:
        place = str(unfinished.absolute()).replace("'", "''")
        ((rows,),) = recording.ask(f"COPY (SELECT * FROM {source} ORDER BY {order}) TO '{place}' ({options})")
    return Exported(table.name, target, int(rows))


def _tabulate_runs(sweep: Sweep) -> pa.Table:
    """Run, replicate, and a column for each varied value."""
    columns: dict[str, Any] = {
        "run": pa.array([run.run for run in sweep.runs], pa.string()),
        "replicate": pa.array([run.replicate for run in sweep.runs], pa.int32()),
    }
    for name in sweep.varied:
        columns[name] = _make_column([run.values.get(name) for run in sweep.runs])
    return pa.table(columns)


def _make_column(values: list[Any]) -> pa.Array:
    """Numbers, truths or texts as they are; of several kinds, or nested, as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) == 1 and kinds <= {str, bool}:
        return pa.array(values)
    return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values])

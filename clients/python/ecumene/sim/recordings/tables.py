"""The recorded tables of one or several runs in DuckDB, each fact once."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.client.errors import EcumeneError
from ecumene.client.records import CUT_SHORT, TABLES, TURNS, Table, TurnStatus, list_parts

MEMORY_MAX = "600MB"
"""Of one query; what needs more goes through files."""
THREADS_MAX = 4
_TYPES = {
    "text": "VARCHAR",
    "category": "VARCHAR",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float64": "DOUBLE",
}


class RecordingError(EcumeneError):
    """What was recorded cannot be read."""


class Recording:
    """Questions to recorded tables, each of which is a view of its name."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def ask(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of an answer. Raises RecordingError."""
        with _telling_damage():
            return self._connection.execute(sql, values or None).fetchall()

    def ask_columns(self, sql: str, **values: Any) -> pa.Table:
        """An answer in columns, for many rows. Raises RecordingError."""
        with _telling_damage():
            table: pa.Table = self._connection.sql(sql, params=values or None).to_arrow_table()
        return table

    def add_table(self, name: str, table: pa.Table) -> None:
        """Another table to ask about."""
        self._connection.register(name, table)


@contextmanager
def open_recording(directories: Sequence[Path], tables: Sequence[Table] = TABLES) -> Iterator[Recording]:
    """The closed parts of runs that ended, were killed or go on, as they lie there now.

    A row that stands twice is there once: of the writings of a turn the latest that was not cut short, of all else
    the last. What does not fit into memory goes through files of a temporary folder. Raises RecordingError: a part is
    damaged.
    """
    with tempfile.TemporaryDirectory(prefix="ecumene-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_MAX,
            "threads": min(THREADS_MAX, os.cpu_count() or 1),
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=config) as connection:
            for table in tables:
                parts = [part for directory in directories for part in list_parts(directory, table)]
                _check_parts(parts)
                with _telling_damage():
                    _make_view(connection, table, parts)
            yield Recording(connection)


def quote(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def _make_view(connection: duckdb.DuckDBPyConnection, table: Table, parts: Sequence[Path]) -> None:
    """The rows of a table, each once; columns that older parts lack are null.

    Rows that stand twice are few, and in most runs there are none: they are found once, by a hash of their ids, and not
    again by each question.
    """
    columns = ", ".join(quote(column.name) for column in table.columns)
    empty = ", ".join(f"NULL::{_TYPES[column.kind]} AS {quote(column.name)}" for column in table.columns)
    if not parts:
        connection.execute(f"CREATE VIEW {quote(table.name)} AS SELECT {empty} WHERE false")
        return
    names = ", ".join(_write_text(_escape(str(part.absolute()))) for part in parts)
    rows = (
        f"(SELECT {empty}, NULL::VARCHAR AS filename, NULL::BIGINT AS file_row_number WHERE false "
        "UNION ALL BY NAME SELECT * FROM "
        f"read_parquet([{names}], union_by_name=true, filename=true, file_row_number=true))"
    )
    ids = ", ".join(map(quote, table.ids))
    superseded = quote(f"superseded {table.name}")
    connection.execute(
        f"CREATE TEMP TABLE {superseded} AS SELECT filename, file_row_number FROM {rows} WHERE hash({ids}) IN "
        f"(SELECT hash({ids}) AS place FROM {rows} GROUP BY place HAVING count(*) > 1) "
        f"QUALIFY row_number() OVER (PARTITION BY {ids} ORDER BY {_rank(table)}) > 1"
    )
    (count,) = connection.execute(f"SELECT count(*) FROM {superseded}").fetchone() or (0,)
    without = f" ANTI JOIN {superseded} USING (filename, file_row_number)" if count else ""
    connection.execute(f"CREATE VIEW {quote(table.name)} AS SELECT {columns} FROM {rows}{without}")


def _rank(table: Table) -> str:
    """Of rows with equal ids, which comes first."""
    later = "filename DESC, file_row_number DESC"
    if table is not TURNS:
        return later
    reasons = ", ".join(map(_write_text, CUT_SHORT))
    cut_short = f"coalesce(status = {_write_text(TurnStatus.CANCELLED)} AND reason IN ({reasons}), false)"
    return f"{cut_short}, wall_time_ns DESC, {later}"


@contextmanager
def _telling_damage() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:  # of parts that are damaged behind their footer, too
        raise RecordingError(f"the recording cannot be read: {' '.join(str(error).split())}") from error


def _check_parts(parts: Sequence[Path]) -> None:
    for part in parts:
        try:
            pq.read_metadata(part)
        except (pa.ArrowException, OSError) as error:
            raise RecordingError(f"{part}: is damaged, or cannot be read: {error}") from error


def _write_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escape(path: str) -> str:
    """A path in which nothing is a wildcard."""
    return re.sub(r"[*?\[]", lambda match: f"[{match.group()}]", path)

"""Batches of columns, and the Arrow tables made of many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from ecumene.client.records import Table

from agent_runtime.recording.errors import BatchShapeError

# Below this, batches are joined as Python lists first: an Arrow array costs microseconds however short.
SMALL_BATCH_ROWS = 512
# A conversion holds the interpreter's lock: at this length, for a few milliseconds.
SLICE_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in columns: a list, a NumPy or Arrow array with one element a row, or a scalar for all rows."""

    rows: int
    columns: Mapping[str, Any]
    chars: int


def make_batch(table: Table, columns: Mapping[str, Any], rows: int | None, run: str) -> Batch:
    """Check the shape of columns and make a batch of them; `rows` is needed only if all are scalars.

    Raises BatchShapeError on an unknown column, a required one that is missing, unequal lengths.
    """
    if unknown := columns.keys() - table.column_names:
        raise BatchShapeError(table.name, f"unknown columns {', '.join(sorted(unknown))}")
    for name, values in columns.items():
        if is_column(values):
            if rows is None:
                rows = len(values)
            elif len(values) != rows:
                raise BatchShapeError(table.name, f"{name} has {len(values)} rows, others have {rows}")
    if rows is None:
        raise BatchShapeError(table.name, "all columns are scalars: say how many rows")
    chars = 0
    for column in table.columns:
        if column.name not in columns and not column.nullable and column.name != "run":
            raise BatchShapeError(table.name, f"column {column.name} is missing")
        if column.bulky:
            chars += count_chars(columns.get(column.name), rows)
    return Batch(rows, columns if "run" in columns else {**columns, "run": run}, chars)


def is_column(values: Any) -> bool:
    """Whether values are one a row, not one for all rows."""
    return isinstance(values, list | np.ndarray | pa.Array | pa.ChunkedArray | tuple)


def count_chars(values: Any, rows: int) -> int:
    """Characters that a bulky column holds in memory."""
    if values is None:
        return 0
    if isinstance(values, str):
        return len(values)
    if isinstance(values, list | tuple):
        return sum(len(value) for value in values if value is not None)
    return int(values.nbytes)


def build_rows(table: Table, batches: Sequence[Batch]) -> pa.Table:
    """Join batches, in their order, into one Arrow table of the table's schema.

    Raises pyarrow.ArrowInvalid, ArrowTypeError or OverflowError, with the column in its notes, where
    a value is of another kind than its column.
    """
    joined = {}
    for field in table.schema:
        try:
            joined[field.name] = fit_column(field.type, [(b.rows, b.columns.get(field.name)) for b in batches])
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            error.add_note(f"column {field.name} of {table.name}")
            raise
    rows = pa.table(joined, schema=table.schema)
    rows.validate()
    return rows.unify_dictionaries()


def fit_column(kind: pa.DataType, pieces: Sequence[tuple[int, Any]]) -> pa.ChunkedArray:
    """`join_column`, of values that may be too large for the column or no text that a file keeps.

    What agents and their models say ends up here: one such value is cut to what fits, not the recording of thousands.
    """
    try:
        return join_column(kind, pieces)
    except (ValueError, OverflowError):
        return join_column(kind, [(rows, _fit(values, kind)) for rows, values in pieces])


def _fit(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, list | tuple):
        return [_fit(value, kind) for value in values]
    if isinstance(values, str):
        return values.encode("utf-8", "replace").decode()
    if type(values) is int and pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        return max(-most, min(most, values))
    return values


def join_column(kind: pa.DataType, pieces: Sequence[tuple[int, Any]]) -> pa.ChunkedArray:
    """One column out of pieces: (rows, values or the scalar for all of them)."""
    scalars = [value for _, value in pieces if not is_column(value)]
    if len(scalars) == len(pieces) and all(value == scalars[0] for value in scalars):
        return pa.chunked_array([repeat(scalars[0], sum(rows for rows, _ in pieces), kind)], kind)
    chunks: list[pa.Array] = []
    loose: list[Any] = []
    for rows, value in pieces:
        if rows < SMALL_BATCH_ROWS:
            loose.extend(value if is_column(value) else [value] * rows)
            continue
        if loose:
            chunks.append(pa.array(loose, kind))
            loose = []
        chunks.extend(convert(value, kind) if is_column(value) else [repeat(value, rows, kind)])
    if loose:
        chunks.append(pa.array(loose, kind))
    return pa.chunked_array(chunks, kind)


def convert(values: Any, kind: pa.DataType) -> list[pa.Array]:
    """Arrow arrays of a long column, in slices."""
    if isinstance(values, pa.Array):
        return [values.cast(kind)]
    if isinstance(values, pa.ChunkedArray):
        return [chunk.cast(kind) for chunk in values.chunks]
    return [pa.array(values[start : start + SLICE_ROWS], kind) for start in range(0, len(values), SLICE_ROWS)]


def repeat(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """One value many times."""
    if value is None:
        return pa.nulls(rows, kind)
    if pa.types.is_dictionary(kind):
        codes = np.zeros(rows, dtype=kind.index_type.to_pandas_dtype())
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], kind.value_type))
    return pa.repeat(pa.scalar(value, kind), rows)

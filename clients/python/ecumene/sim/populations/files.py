"""Populations as files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ecumene.client.records.whole_files import replace_whole

SUFFIXES = (".csv", ".parquet")


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as CSV (UTF-8, with a header) or Parquet, by the end of its name; whole or not at all.

    Raises OSError.
    """
    with replace_whole(path) as unfinished:
        if path.suffix == ".parquet":
            pq.write_table(table, unfinished)
        else:
            plain = [column.cast(_spell(column.type)) for column in table.columns]
            pa.csv.write_csv(pa.table(plain, names=table.column_names), unfinished)


def _spell(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind

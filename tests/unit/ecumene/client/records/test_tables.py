"""The recorded tables are stated completely, without pyarrow, and give sound Arrow schemas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from ecumene.client.records import SCHEMA_VERSION, TABLES, TURNS, Table, TurnStatus, find_table


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_schema_has_every_column_with_its_meaning_and_the_version(table: Table) -> None:
    schema = table.schema
    assert schema.names == [column.name for column in table.columns]
    assert len(table.column_names) == len(table.columns)
    assert schema.metadata[b"ecumene.schema_version"] == str(SCHEMA_VERSION).encode()
    for column in table.columns:
        field = schema.field(column.name)
        assert field.metadata[b"meaning"].decode() == column.meaning
        assert field.nullable is column.nullable


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_durations_and_instants_say_their_unit(table: Table) -> None:
    for column in table.columns:
        if "time" in column.name:
            assert column.name.endswith("_ns")
            assert column.kind == "int64"
        if "latency" in column.name:
            assert column.name.endswith("_ms")


def test_the_descriptions_need_no_pyarrow() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import ecumene.client.records as r; print(len(r.TABLES))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == str(len(TABLES))


def test_only_ok_and_fallback_have_acted() -> None:
    assert [status for status in TurnStatus if status.acted] == [TurnStatus.OK, TurnStatus.FALLBACK]
    assert len(TurnStatus) == 9


def test_a_table_is_found_by_name() -> None:
    assert find_table("turns") is TURNS
    with pytest.raises(KeyError):
        find_table("metrics")


def test_a_status_is_a_category_of_arrow() -> None:
    kind = TURNS.schema.field("status").type
    assert pa.array([TurnStatus.OK, TurnStatus.TIMEOUT], kind).to_pylist() == ["ok", "timeout"]

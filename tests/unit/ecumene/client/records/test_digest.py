"""The digest of recorded turns: what it tells apart, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.client.records import ACTIONS, TURNS, RunDigest, Table, close_part, digest_turns, name_part

ACTION = {"agent": "ann", "turn": 1, "seq": 0, "action": "report", "path": "/g", "key": "ann"}


def turn(agent: str = "ann", number: int = 1, *, at: int = 1, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"agent": agent, "turn": number, "wall_time_ns": at, "status": status, **more}


def action(value: float, *, seq: int = 0, commit: int | None = 7, **more: Any) -> dict[str, Any]:
    return {**ACTION, "seq": seq, "value_kind": "double", "value_double": value, "commit_revision": commit, **more}


class Written:
    """A run's directory under construction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers: dict[str, int] = {}

    def write(self, table: Table, *rows: dict[str, Any], source: str = "n.w0") -> Written:
        """A part with rows; what they leave out is null, or 0."""
        number = self._numbers[f"{table.name}{source}"] = self._numbers.get(f"{table.name}{source}", 0) + 1
        filled = [{column.name: fill(column, row) for column in table.columns} for row in rows]
        for folder in (self.folder / table.name, self.folder / "staging"):
            folder.mkdir(parents=True, exist_ok=True)
        plain = pa.Table.from_pylist(filled, pa.schema([field_of(field) for field in table.schema]))
        close_part(plain.cast(table.schema), self.folder / table.name / name_part(source, number), self.folder)
        return self

    @property
    def digest(self) -> str:
        return digest_turns(self.folder)


def fill(column: Any, row: dict[str, Any]) -> Any:
    if column.name in row or column.nullable:
        return row.get(column.name)
    return "" if column.kind in ("text", "category") else 0


def field_of(field: pa.Field) -> pa.Field:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, kind, field.nullable)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """Two agents with one turn each."""
    return Written(tmp_path / "plain").write(ACTIONS, action(1.0)).write(TURNS, turn(), turn("bob")).digest


def test_who_hosted_it_when_and_in_which_revision_makes_no_difference(tmp_path: Path, plain: str) -> None:
    other = Written(tmp_path / "o")
    other.write(TURNS, turn("bob", at=99, observation_revision=5), source="z.w7")
    other.write(ACTIONS, action(1.0, commit=900), source="a.w1").write(TURNS, turn(latency_ms=3.0), source="a.w1")
    assert other.digest == plain


@pytest.mark.parametrize(
    ("actions", "turns"),
    [
        ([action(1.5)], [turn(), turn("bob")]),
        ([action(1.0, key="bob")], [turn(), turn("bob")]),
        ([action(1.0), action(1.0, seq=1)], [turn(), turn("bob")]),
        ([action(1.0)], [turn(status="fallback"), turn("bob")]),
        ([action(1.0)], [turn(sim_time_ns=5), turn("bob")]),
        ([action(1.0)], [turn(), turn("bob"), turn("bob", 2)]),
        ([action(1.0)], [turn()]),
    ],
)
def test_what_happened_makes_a_difference(
    tmp_path: Path, plain: str, actions: list[dict[str, Any]], turns: list[dict[str, Any]]
) -> None:
    assert Written(tmp_path / "o").write(ACTIONS, *actions).write(TURNS, *turns).digest != plain


@pytest.mark.parametrize("source", ["n.w0", "a.w9", "z.w9"])
def test_rows_that_stand_twice_are_one_fact(tmp_path: Path, plain: str, source: str) -> None:
    other = Written(tmp_path / "o")
    other.write(ACTIONS, action(9.0, commit=None), action(9.5, seq=1, commit=None)).write(TURNS, turn(status="error"))
    other.write(ACTIONS, action(1.0), source=source).write(TURNS, turn(at=2), turn("bob"), source=source)
    assert other.digest == plain


def test_a_turn_that_was_cut_short_counts_only_if_there_is_no_other(tmp_path: Path, plain: str) -> None:
    cut = turn(at=50, status="cancelled", reason="the runtime was stopped")
    other = Written(tmp_path / "o").write(ACTIONS, action(1.0)).write(TURNS, turn(), turn("bob"), cut)
    assert other.digest == plain
    alone = Written(tmp_path / "a").write(TURNS, cut, turn("bob"))
    assert alone.digest not in (plain, Written(tmp_path / "b").write(TURNS, turn("bob")).digest)


def test_all_parts_of_a_digest_count() -> None:
    assert len({str(RunDigest(*parts)) for parts in ("abc", "xbc", "axc", "abx")}) == 4

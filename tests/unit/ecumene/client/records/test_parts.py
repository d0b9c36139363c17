"""Part files appear whole and durable, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.client.records import TURNS, PartNameError, close_part, list_parts, name_part


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of a table and one for staging."""
    folders = (tmp_path / "turns", tmp_path / "staging")
    for folder in folders:
        folder.mkdir()
    return folders


def test_a_closed_part_is_readable_and_leaves_nothing_behind(folders: tuple[Path, Path]) -> None:
    table, staging = folders
    target = table / name_part("node-1.w00", 1)
    size = close_part(pa.table({"text": ["größe", "数"]}), target, staging)
    assert pq.read_table(target).column("text").to_pylist() == ["größe", "数"]
    assert target.stat().st_size == size
    assert list(staging.iterdir()) == []


def test_file_and_folder_are_synced_around_the_rename(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, staging = folders
    target = table / name_part("w", 1)
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    close_part(pa.table({"x": [1]}), target, staging)
    assert synced == [(f"turns.{target.name}", False), ("turns", True)]


def test_a_failed_sync_leaves_no_part(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    table, staging = folders

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        close_part(pa.table({"x": [1]}), table / name_part("w", 1), staging)
    assert list(table.iterdir()) == []
    assert list(staging.iterdir()) == []


def test_a_part_is_never_overwritten(folders: tuple[Path, Path]) -> None:
    table, staging = folders
    target = table / name_part("w", 1)
    close_part(pa.table({"x": [1]}), target, staging)
    with pytest.raises(FileExistsError):
        close_part(pa.table({"x": [2]}), target, staging)
    assert pq.read_table(target).column("x").to_pylist() == [1]


@pytest.mark.parametrize("source", ["", "Node", "a/b", "../x", "-a", "a-", "a b", "ä", "x" * 81])
def test_a_source_that_is_no_file_name_is_refused(source: str) -> None:
    with pytest.raises(PartNameError):
        name_part(source, 1)


@pytest.mark.parametrize("number", [0, -1, 1_000_000])
def test_a_number_that_does_not_fit_the_name_is_refused(number: int) -> None:
    with pytest.raises(PartNameError):
        name_part("w", number)


def test_sources_with_similar_names_keep_their_parts_apart(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    for source, number in (("node-1", 1), ("node-1", 2), ("node-1-000002", 1), ("node", 7)):
        (folder / name_part(source, number)).touch()
    (folder / ".node-1-000003.parquet.tmp").touch()
    assert list(list_parts(tmp_path, TURNS, "node-1").values()) == [1, 2]
    assert list(list_parts(tmp_path, TURNS, "node").values()) == [7]
    assert len(list_parts(tmp_path, TURNS)) == 4
    assert list_parts(tmp_path / "absent", TURNS) == {}

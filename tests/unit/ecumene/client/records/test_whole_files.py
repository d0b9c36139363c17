"""A file is replaced as a whole, and whoever fails leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.client.records.whole_files import replace_whole, write_whole


def test_readers_find_the_older_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "größe.json"
    write_whole(target, "old")
    with replace_whole(target) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
        assert target.read_text(encoding="utf-8") == "old"
        assert unfinished.parent == target.parent, "a rename stays on one disk"
    assert target.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_what_fails_halfway_leaves_the_older_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "told"
    write_whole(target, "old")
    with pytest.raises(ZeroDivisionError), replace_whole(target) as unfinished:
        unfinished.write_text("ne", encoding="utf-8")
        raise ZeroDivisionError
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_who_writes_nothing_replaces_nothing(tmp_path: Path) -> None:
    target = tmp_path / "told"
    write_whole(target, "old")
    with pytest.raises(FileNotFoundError), replace_whole(target):
        pass
    assert target.read_text(encoding="utf-8") == "old"

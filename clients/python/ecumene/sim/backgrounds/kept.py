"""Finished texts, in a file: found again by all that made them, whatever ended the command that asked for them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ecumene.client.errors import EcumeneError

_TABLE = "CREATE TABLE IF NOT EXISTS written (key TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID"


class KeptTextsError(EcumeneError):
    """The file of finished texts is in use, or is none."""

    exit_code = 2

    def __init__(self, path: Path, error: sqlite3.Error) -> None:
        is_used = "locked" in str(error)
        problem = "another command writes these backgrounds now" if is_used else f"holds no finished texts: {error}"
        super().__init__(f"{path}: {problem}")


class KeptTexts:
    """Context manager: the finished texts of a file, which is ours meanwhile. What `keep` has returned from is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        """Raises KeptTextsError, OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            # A lock that ends with the process, and no file beside this one that others would have to share.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN EXCLUSIVE")
            database.execute(_TABLE)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            database.close()
            raise KeptTextsError(self._path, error) from error
        self._database = database
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._database is not None
        self._database.close()
        self._database = None

    def find(self, key: str) -> dict[str, Any] | None:
        """What was kept under a key."""
        assert self._database is not None
        row = self._database.execute("SELECT document FROM written WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep(self, some: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Keep documents under their keys, all or none. Raises KeptTextsError: the disk."""
        assert self._database is not None
        rows = [(key, json.dumps(dict(document), ensure_ascii=False)) for key, document in some]
        try:
            with self._database:
                self._database.execute("BEGIN")
                self._database.executemany("INSERT OR REPLACE INTO written VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise KeptTextsError(self._path, error) from error

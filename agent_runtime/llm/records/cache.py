"""Answers that were given before, in a file, for identical requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent_runtime.llm.errors import ModelSetupError
from agent_runtime.llm.records.bodies import describe_request
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode, ToolCall

logger = logging.getLogger("ecumene.runtime")

BUSY_TIMEOUT_S = 5.0
TRIM_SHARE = 0.9
"""What is left when the oldest answers have made room."""
_KEPT_REASONS = frozenset({"stop", "tool_calls"})

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    key BLOB PRIMARY KEY, number INTEGER NOT NULL, size INTEGER NOT NULL, completion TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_number ON answers (number, size);
CREATE TABLE IF NOT EXISTS held (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO held VALUES ('bytes', 0), ('number', 0);
"""


class SqliteCache:
    """Keeps complete answers by all that makes a request, its schema mode included; several processes may share it.

    At most `bytes_max` bytes of keys and answers; the oldest make room. Who asks is no part of a request: with a
    temperature above 0, agents that ask the same get the same sample. What the file cannot do, it does not:
    a question is then asked as if there were no cache, and the first such failure is logged.
    """

    def __init__(self, path: Path, *, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        # sqlite may wait for another process: never on the loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llm-cache")
        self._database: sqlite3.Connection | None = None
        self._has_failed = False

    @classmethod
    async def open(cls, path: Path, *, bytes_max: int) -> SqliteCache:
        """Opens or creates the file.

        Raises:
            ModelSetupError: it cannot be opened, or is something else.
        """
        cache = cls(path, bytes_max=bytes_max)
        try:
            await asyncio.get_running_loop().run_in_executor(cache._thread, cache._open)
        except (sqlite3.Error, OSError) as error:
            cache._thread.shutdown(wait=False)
            raise ModelSetupError("cache", f"{path}: {error}") from error
        return cache

    async def find(self, request: ModelRequest, mode: SchemaMode) -> Completion | None:
        """See CompletionCache."""
        key = _make_key(request, mode)
        text = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, key)
        try:
            return None if text is None else _read_completion(text)
        except (ValueError, TypeError) as error:
            self._note_failure(error)
            return None

    async def keep(self, request: ModelRequest, mode: SchemaMode, completion: Completion) -> None:
        """See CompletionCache."""
        if completion.finish_reason in _KEPT_REASONS:
            key, text = _make_key(request, mode), _write_completion(completion)
            await asyncio.get_running_loop().run_in_executor(self._thread, self._keep, key, text)

    async def aclose(self) -> None:
        """See CompletionCache."""
        if self._database is not None:
            database, self._database = self._database, None
            await asyncio.get_running_loop().run_in_executor(self._thread, database.close)
        self._thread.shutdown()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        # Losing the last answers in a crash costs asking again.
        database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;" + _TABLES)
        self._database = database

    def _find(self, key: bytes) -> str | None:
        if self._database is None:
            return None
        try:
            row = self._database.execute("SELECT completion FROM answers WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            self._note_failure(error)
            return None
        return None if row is None else str(row[0])

    def _keep(self, key: bytes, text: str) -> None:
        database, size = self._database, len(key) + len(text.encode())
        if database is None or size > self._bytes_max:
            return
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE held SET value = value + 1 WHERE name = 'number'")
            kept = database.execute(
                "INSERT OR IGNORE INTO answers SELECT ?, value, ?, ? FROM held WHERE name = 'number'", (key, size, text)
            )
            if kept.rowcount:
                database.execute("UPDATE held SET value = value + ? WHERE name = 'bytes'", (size,))
            (held,) = database.execute("SELECT value FROM held WHERE name = 'bytes'").fetchone()
            if held > self._bytes_max:
                self._make_room(database, held)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            self._note_failure(error)
            if database.in_transaction:
                database.execute("ROLLBACK")

    def _make_room(self, database: sqlite3.Connection, held: int) -> None:
        last = 0
        for number, size in database.execute("SELECT number, size FROM answers ORDER BY number"):
            last, held = number, held - size
            if held <= self._bytes_max * TRIM_SHARE:
                break
        database.execute("DELETE FROM answers WHERE number <= ?", (last,))
        database.execute("UPDATE held SET value = ? WHERE name = 'bytes'", (held,))

    def _note_failure(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("the cache %s fails, questions are asked without it: %s", self._path, error)


def _make_key(request: ModelRequest, mode: SchemaMode) -> bytes:
    body = describe_request(request)
    told = f"{mode.value}/{request.max_tokens}/{request.step}/".encode()
    return hashlib.blake2b(told + body, digest_size=16).digest()


def _write_completion(completion: Completion) -> str:
    calls = [[call.id, call.name, call.arguments] for call in completion.tool_calls]
    return json.dumps([completion.text, completion.finish_reason, completion.model, calls], ensure_ascii=False)


def _read_completion(text: str) -> Completion:
    """Costs no tokens: nobody was asked."""
    answer, finish_reason, model, calls = json.loads(text)
    tool_calls = tuple(ToolCall(*call) for call in calls)
    texts = [answer, finish_reason, model, *(part for call in calls for part in call)]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("no completion is kept in it")
    return Completion(answer, finish_reason, 0, 0, model, tool_calls)

"""`ecumene offline replay`: the state of a world again, from its log alone, up to a revision.

Into a new directory when asked: a world of its own, with a new history, that holds the log up to there and the state
that follows from it. Needs a log that reaches back to the first record.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from env_server.model.changes import Changes
from env_server.model.frames import Invoked, Outcome, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.ports import Head, Origin
from env_server.offline.contents import State
from env_server.offline.directories import is_snapshot_directory
from env_server.pipeline.commits.saving import Saving
from env_server.storage import layout
from env_server.storage.copies import give_history, publish, unfinished
from env_server.storage.errors import StorageError
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.lmdb_tables import Tables, read_head, told_where
from env_server.storage.log_reading import replay as replay_records
from env_server.storage.read_only import reading

_QUEUED_BYTES_MAX: Final = 64 << 20
"""Records on their way to the new directory."""


class Rebuilt(NamedTuple):
    """What the log told."""

    revision: int
    records: int
    environments: int
    entries: int
    history: str
    """Of the new directory; "" without one."""


def rebuild(directory: Path, through: int, into: Path | None, new_id: Callable[[], str]) -> Rebuilt:
    """Replays the log through a revision, 0 = the last one; into a new world at `into`, whole or not at all.

    Raises:
        StorageError: the directory is in use or damaged; its log begins too late, or ends before `through`, or cannot
            be cut there; `into` is there already.
    """
    with reading(directory, owned=not is_snapshot_directory(directory)) as (tables, _):
        head = read_head(tables)
        state = State()
        if into is None:
            records = 0
            for changes in _records(tables, head, through):
                state.record(changes)
                records += 1
            return _sum_up(state, records, "")
        if into.exists():
            raise StorageError(str(into), "is there already", "give a directory that is not there")
        history = new_id()
        with unfinished(into.absolute().parent, new_id()) as unfinished_directory:
            records = _write(unfinished_directory, _records(tables, head, through), state, history)
            origin = Origin(directory.absolute().name, head.history, state.tree.revision)
            give_history(unfinished_directory, history, origin)
            (unfinished_directory / layout.OWNER_FILE).unlink(missing_ok=True)
            publish(unfinished_directory, into)
    return _sum_up(state, records, history)


def _records(tables: Tables, head: Head, through: int) -> Iterator[Changes]:
    """All records through the revision, the last one cut to it."""
    where = str(tables.directory)
    wanted = through or head.revision
    if wanted > head.revision:
        raise StorageError(where, f"ends with revision {head.revision}", "ask for one up to that")
    with told_where(tables.directory), tables.env.begin() as transaction:
        cursor = transaction.cursor(tables[layout.LOG])
        if cursor.first() and layout.LOG_KEY.unpack(cursor.key())[1] != 1:
            advice = "what came before is in its state tables only: take a snapshot instead"
            raise StorageError(where, f"its log begins at revision {head.first_revision}", advice)
        for changes in replay_records(iter(cursor), head._replace(applied_through=0)):
            if changes.base_revision >= wanted and changes.last_revision > wanted:
                return
            yield changes if changes.last_revision <= wanted else _cut(changes, wanted, where)


def _cut(changes: Changes, through: int, where: str) -> Changes:
    """The record without what came after the revision. Its conflated events of aggregates go, they tell of its end.

    Facts that come with no revision, such as what was acknowledged by itself, count with the next one.
    """
    if len(changes.fact_revisions) != len(changes.facts):
        between = f"{changes.base_revision + 1} to {changes.last_revision}"
        advice = f"ask for {changes.base_revision} or {changes.last_revision}"
        problem = f"revisions {between} are one record of an earlier version with facts, which cannot be cut"
        raise StorageError(where, problem, advice)
    facts = [
        (fact, first) for fact, first in zip(changes.facts, changes.fact_revisions, strict=True) if first <= through
    ]
    rows = bisect_right(changes.revisions, through)
    columns = ("path", "revisions", "types", "keys", "values", "versions", "producers", "producer_seqs", "actors")
    kept = {name: getattr(changes, name)[:rows] for name in (*columns, "causes", "principals")}
    return replace(
        changes,
        **kept,
        last_revision=through,
        extras={row: extra for row, extra in changes.extras.items() if row < rows},
        sent=[one._replace(rows=min(one.rows, rows - one.first_row)) for one in changes.sent if one.first_row < rows],
        outcomes=[one for one in changes.outcomes if 0 < _revision_of(one.outcome) <= through],
        answers=[one for one in changes.answers if one.answer.revision <= through],
        facts=[fact for fact, _ in facts],
        fact_revisions=[first for _, first in facts],
        views={},
    )


def _revision_of(outcome: Outcome) -> int:
    return outcome.revision if isinstance(outcome, Written | Invoked | Transacted) else 0


def _write(directory: Path, records: Iterator[Changes], state: State, history: str) -> int:
    """Makes the world of these records, with the state that follows from them; returns how many there were."""
    limits = Limits(log_bytes_max=1 << 62, log_age_s=1e12)
    log = LmdbCommitLog.open(directory, limits, lambda: history)
    progress = _Progress()
    count = last_number = queued_bytes = 0
    try:
        log.start(call=lambda call, told: call(told), on_durable=progress.durable, on_fatal=progress.fatal)
        for changes in records:
            state.record(changes)
            log.append(changes, None)
            count, last_number = count + 1, changes.number
            queued_bytes += changes.size_bytes
            if queued_bytes > _QUEUED_BYTES_MAX:
                progress.wait(last_number)
                queued_bytes = 0
        state.finish()
        saving = Saving(state.tree, state.producers, state.sessions, limits)
        saving.note_facts(state.all_facts())
        for chunk in saving.everything(last_number):
            last_number += 1
            revision = state.tree.revision
            log.append(Changes(last_number, revision, revision), chunk)
        progress.wait(last_number)
    finally:
        log.close()
    return count


class _Progress:
    """What the writer's thread has reported."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._error: BaseException | None = None

    def durable(self, number: int) -> None:
        with self._changed:
            self._number = number
            self._changed.notify_all()

    def fatal(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Until the record is durable. Raises what the writer failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._number >= number)
            if self._error is not None:
                raise self._error


def _sum_up(state: State, records: int, history: str) -> Rebuilt:
    nodes = state.tree.nodes.by_number.values()
    entries = sum(len(node.entries) for node in nodes)
    return Rebuilt(state.tree.revision, records, len(nodes), entries, history)

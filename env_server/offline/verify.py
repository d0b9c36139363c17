"""`ecumene offline verify`: reads every byte that counts of a stored world, and checks it against all the rest.

Every checksum; a dense log whose records follow one another; the head against the log; the state, as a start would
load it, against the one that the log tells from its beginning, when it reaches back that far; streams against their
items; aggregates, over children too, against exact arithmetic; gates against their reports and members; positions
against their space; clocks and timers against what declares them; a snapshot against its manifest. Nothing is changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmdb

from env_server.model.changes import Changes
from env_server.model.errors import SnapshotDamaged
from env_server.model.ports import Head
from env_server.offline.comparison import check_aggregates, check_gates, check_streams, compare
from env_server.offline.contents import NONSENSE, Problems, State, load_tables
from env_server.offline.directories import is_snapshot_directory
from env_server.offline.places import check_places
from env_server.offline.timelines import check_timelines
from env_server.storage import layout
from env_server.storage.copies import hash_file
from env_server.storage.errors import DataLoss, StorageFormat, StorageInUse, StorageUnreadable
from env_server.storage.lmdb_tables import Tables, read_head
from env_server.storage.log_reading import read_record
from env_server.storage.read_only import reading
from env_server.storage.snapshots import read_manifest


@dataclass(slots=True)
class Report:
    """What was found in one directory."""

    directory: Path
    problems: Problems = field(default_factory=Problems)
    storage_format: int = 0
    head: Head | None = None
    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    is_replayed: bool = False
    """Whether the log reaches back to the beginning, so that the state was compared with it."""
    aggregates: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems.count


def verify(directory: Path) -> Report:
    """Checks the world or snapshot in a directory.

    Raises:
        StorageInUse: a server has it open.
        StorageFormat: it was written by another version, so that nothing can be said.
    """
    report = Report(directory)
    is_snapshot = is_snapshot_directory(directory)
    try:
        if is_snapshot:
            _check_manifest(directory, report.problems)
        with reading(directory, owned=not is_snapshot) as (tables, report.storage_format):
            _check_world(tables, report)
    except (StorageInUse, StorageFormat):
        raise
    except StorageUnreadable as error:
        report.problems.add(layout.DATA_FILE, "", error.problem)
    return report


def _check_world(tables: Tables, report: Report) -> None:
    problems = report.problems
    try:
        report.head = read_head(tables)
    except StorageUnreadable as error:
        problems.add(layout.META, "", error.problem)
    stored, replayed = State(), State()
    report.rows = load_tables(tables, report.storage_format, stored, problems)
    applied = report.head.applied_through if report.head is not None else 0
    first = before = None
    for changes in _records(tables, problems):
        if before is None:
            first = changes.number
        elif changes.number != before.number + 1 or changes.base_revision != before.last_revision:
            problems.add(layout.LOG, str(changes.number), f"follows record {before.number}, or revision, with a gap")
        before = changes
        report.records += 1
        if not problems.count:
            _apply(changes, [replayed] * (first == 1) + [stored] * (changes.number > applied), problems)
    _check_end(before, report)
    if problems.count:
        return  # what cannot be read would be told again and again
    stored.finish()
    check_streams(stored, problems)
    report.aggregates = check_aggregates(stored, problems)
    check_gates(stored, problems)
    check_places(stored, problems)
    check_timelines(stored, problems)
    if first == 1:
        replayed.finish()
        report.is_replayed = True
        compare(stored, replayed, problems)


def _apply(changes: Changes, states: list[State], problems: Problems) -> None:
    try:
        for state in states:
            state.record(changes)
    except NONSENSE as error:  # every checksum is right, and still it does not fit
        problems.add(layout.LOG, str(changes.number), f"does not fit the state ({type(error).__name__}: {error})")


def _records(tables: Tables, problems: Problems) -> Iterator[Changes]:
    """The records that can be read."""
    try:
        with tables.env.begin() as transaction:
            for key, value in transaction.cursor(tables[layout.LOG]):
                try:
                    yield read_record(key, value)
                except DataLoss as damage:
                    number: Any = layout.LOG_KEY.unpack(key)[1] if len(key) == layout.LOG_KEY.size else repr(key)
                    problems.add(layout.LOG, str(number), damage.problem)
    except lmdb.Error as error:
        problems.add(layout.LOG, "", f"LMDB cannot read it ({error})")


def _check_end(last: Changes | None, report: Report) -> None:
    head = report.head
    if last is None or head is None or report.problems.count:
        return
    if (last.number, last.last_revision) != (head.record_number, head.revision):
        what = f"the head tells of revision {head.revision}, the log ends with {last.last_revision}"
        report.problems.add(layout.META, "", what)


def _check_manifest(directory: Path, problems: Problems) -> None:
    try:
        snapshot = read_manifest(directory)
    except SnapshotDamaged as error:
        problems.add("manifest", "", error.message)
        return
    if (directory / layout.DATA_FILE).stat().st_size != snapshot.size_bytes:
        problems.add(layout.DATA_FILE, "", f"has not the {snapshot.size_bytes} bytes of the manifest")
    elif hash_file(directory / layout.DATA_FILE) != snapshot.sha256:
        problems.add(layout.DATA_FILE, "", "its checksum is not that of the manifest")

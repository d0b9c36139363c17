"""Records in order: what a start replays, and what a watch that fell behind reads. Both logs share it.

Pairs are (key, value) of the log table in key order.
"""

from collections.abc import Iterable, Iterator

from env_server.model.changes import Changes
from env_server.model.errors import RevisionCompacted
from env_server.model.ports import Head
from env_server.storage import layout
from env_server.storage.errors import DataLoss
from env_server.storage.records import decode_record
from env_server.storage.rows import Pair


def replay(pairs: Iterable[Pair], head: Head) -> Iterator[Changes]:
    """The records after `head.applied_through`, each checked against the one before it.

    `pairs` may begin with earlier ones.

    Raises:
        DataLoss: a record is damaged, missing or out of place, or the last one is not the head's.
    """
    number = head.applied_through
    revision: int | None = None
    for key, value in pairs:
        if layout.LOG_KEY.unpack(key)[1] <= number:
            continue
        changes = read_record(key, value)
        if changes.number != number + 1 or (revision is not None and changes.base_revision != revision):
            raise DataLoss("", f"the log goes on with record {changes.number} after record {number}")
        number, revision = changes.number, changes.last_revision
        yield changes
    if number != head.record_number or (revision is not None and revision != head.revision):
        raise DataLoss("", f"the log ends with record {number} instead of {head.record_number}")


def select(pairs: Iterable[Pair], from_revision: int, bytes_max: int, revision: int) -> list[Changes]:
    """Records that hold `from_revision` or later ones up to the log's last `revision`, until `bytes_max` is exceeded.

    `pairs` begins at `layout.log_key(from_revision, 0)`. Records without revisions are left out.

    Raises:
        DataLoss: a record is damaged or missing.
    """
    selected: list[Changes] = []
    size_bytes = 0
    before = -1
    reached = from_revision - 1
    for key, value in pairs:
        last_revision = layout.LOG_KEY.unpack(key)[0]
        if last_revision == before:
            continue  # only outcomes: it ends where the record before it ended
        before = last_revision
        changes = read_record(key, value)
        if changes.last_revision == changes.base_revision:
            continue
        if changes.base_revision > reached or (selected and changes.base_revision != reached):
            raise DataLoss("", f"the log goes on with revision {changes.base_revision + 1} after {reached}")
        selected.append(changes)
        reached = changes.last_revision
        size_bytes += changes.size_bytes
        if size_bytes > bytes_max:
            return selected
    if reached < revision:
        raise DataLoss("", f"the log ends with revision {reached} instead of {revision}")
    return selected


def read_record(key: bytes, value: bytes) -> Changes:
    """The record of a pair.

    Raises:
        DataLoss: it is damaged or stands under another record's key.
    """
    header, record = layout.open_record(key, value)
    changes = decode_record(record)
    if layout.log_key(changes.last_revision, changes.number) != key or header.base_revision != changes.base_revision:
        raise DataLoss("", f"log record {changes.number} stands in the place of another one")
    return changes


def check_head(head: Head, first: bytes | None, last: bytes | None, count: int) -> None:
    """Accepts a head that agrees with the first and last key of the log and the number of records in it.

    Raises:
        DataLoss: it does not.
    """
    if first is None or last is None:
        if head.applied_through != head.record_number:
            raise DataLoss(
                "",
                f"the log is empty, the state stands at record {head.applied_through}"
                f" and the head at {head.record_number}",
            )
        return
    first_number = layout.LOG_KEY.unpack(first)[1]
    if layout.LOG_KEY.unpack(last) != (head.revision, head.record_number):
        raise DataLoss("", f"the last record of the log is not record {head.record_number} of the head")
    if count != head.record_number - first_number + 1:
        raise DataLoss("", f"the log holds {count} records, numbered {first_number} to {head.record_number}")
    if not first_number - 1 <= head.applied_through <= head.record_number:
        raise DataLoss("", f"the log begins with record {first_number}, the state ends with {head.applied_through}")


def check_retained(from_revision: int, first_revision: int, revision: int) -> None:
    """Accepts a revision to read from that is in the log or above it.

    Raises:
        RevisionCompacted.
    """
    if from_revision < first_revision:
        raise RevisionCompacted(from_revision, first_revision)

"""Reads of the past: what happened to an entry, from the retained log, read where the log is read and nobody waits.

The log is looked through by path and key: an entry that was deleted and created again, and an environment that came
back at the same path, are one story, in which versions begin anew. The deletion of the environment is told too, since
it took the entry along without a word of its own.
"""

from collections.abc import Callable, Iterator
from typing import Final

from env_server.model.changes import Changes, EventType
from env_server.model.errors import InternalError, InvalidRequest, OutOfRange, Reason, WorldError
from env_server.model.frames import PastPage, PastValue
from env_server.model.limits import Limits
from env_server.model.names import check_segment, split_path
from env_server.model.operations import ReadPast
from env_server.model.ports import CommitLog
from env_server.model.values import NOTHING
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.pipeline.reads.log_reads import ReadLogThen
from env_server.pipeline.reads.slow_reads import SlowReads
from env_server.state_tree.reads.reads import check_revision
from env_server.state_tree.reads.weights import weigh_text, weigh_value
from env_server.state_tree.tree import Tree

_READ_BYTES: Final = 512 * 1024
"""Of records looked through in one step."""
_OF_ENTRIES: Final = frozenset(
    (
        EventType.ENTRY_SET,
        EventType.ENTRY_INCREMENTED,
        EventType.ENTRY_APPENDED,
        EventType.ENTRY_DELETED,
        EventType.ENTRY_MOVED,
        EventType.MEMBER_JOINED,
        EventType.MEMBER_LEFT,
        EventType.MEMBER_EXPIRED,
    )
)


class PastReads:
    """Reads of the past of one world. They count among its slow reads."""

    def __init__(
        self, tree: Tree, log: CommitLog, commits: Commits, read_log: ReadLogThen, slow: SlowReads, limits: Limits
    ) -> None:
        self._tree = tree
        self._log = log
        self._commits = commits
        self._read_log = read_log
        self._slow = slow
        self._limits = limits

    def begin(self, run: FrameRun, index: int, path: str, key: str, ask: ReadPast) -> None:
        """Looks for the changes of an entry, whether or not it or its environment exists; answered late.

        Raises:
            InvalidRequest: no possible path or key; the limit is negative.
            OutOfRange: REVISION_IN_FUTURE.
            Exhausted: QUEUE_FULL.
        """
        split_path(path, self._limits)
        check_segment(key, self._limits)
        if ask.limit < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "query.past.limit", "must not be negative")
        now = self._tree.revision
        for asked in (ask.from_revision, ask.to_revision):
            check_revision(self._tree, asked)
        self._slow.enter()
        count = min(ask.limit or self._limits.page_items, self._limits.page_items_max)
        story = _Story(path, key, ask.from_revision, ask.to_revision or now, count, self._limits)
        reading = _Reading(run, index, story, self._slow.leave)
        run.waits(index, reading.try_stop)
        self._commits.when_seen(lambda: self._go_on(reading))

    def _go_on(self, reading: "_Reading") -> None:
        """Reads the next piece, unless the story is told."""
        story = reading.story
        story.cursor = max(story.cursor, self._log.first_revision)
        if reading.is_stopped:
            return
        if story.is_done:
            reading.end(story.page(self._log.first_revision))
            return
        self._read_log(story.cursor, _READ_BYTES, lambda found: self._took(reading, found))

    def _took(self, reading: "_Reading", found: list[Changes] | BaseException) -> None:
        if isinstance(found, OutOfRange):
            self._go_on(reading)  # forgotten meanwhile: what is left begins later
        elif isinstance(found, BaseException):
            reading.end(found if isinstance(found, WorldError) else InternalError("the log cannot be read"))
        else:
            reading.story.take(found)
            self._go_on(reading)


class _Reading:
    """One read of the past on its way."""

    __slots__ = ("_index", "_leave", "_run", "is_stopped", "story")

    def __init__(self, run: FrameRun, index: int, story: "_Story", leave: Callable[[], None]) -> None:
        self._run = run
        self._index = index
        self._leave = leave
        self.story = story
        self.is_stopped = False

    def try_stop(self) -> bool:
        """Gives up: nobody waits for it any more."""
        self.is_stopped = True
        self._leave()
        return True

    def end(self, outcome: PastPage | WorldError) -> None:
        """Answers the op, unless it was given up."""
        if self.is_stopped:
            return
        self._leave()
        with self._run.late(self._index):
            if isinstance(outcome, WorldError):
                raise outcome
            self._run.read(self._index, outcome)


class _Story:
    """What was found so far."""

    def __init__(self, path: str, key: str, first: int, last: int, count: int, limits: Limits) -> None:
        self.cursor = max(first, 1)
        self.is_done = False
        self._path = path
        self._key = key
        self._last = last
        self._count = count
        self._limits = limits
        self._values: list[PastValue] = []
        self._bytes = self._scanned = 0
        self._next = 0
        self._look()

    def page(self, first_retained: int) -> PastPage:
        """The answer."""
        return PastPage(self._values, first_retained, self._next)

    def take(self, groups: list[Changes]) -> None:
        """Looks through the next records, until the page is full or the end is reached."""
        for changes in groups:
            for value in _changes_of(changes, self._path, self._key, self.cursor, self._last):
                if not self._add(value):
                    return
            self._scanned += changes.size_bytes
            self.cursor = max(self.cursor, changes.last_revision + 1)
        self._look()
        if not groups:
            self.is_done = True
        elif not self.is_done and self._scanned >= self._limits.past_scan_bytes_max:
            self._next, self.is_done = self.cursor, True

    def _look(self) -> None:
        if self.cursor > self._last:
            self.is_done = True

    def _add(self, value: PastValue) -> bool:
        """Whether it fits into the page; a revision is told whole or not at all, and at least one is."""
        values = self._values
        told = (value.actor, value.cause, value.producer)
        size = weigh_value(value.value) + sum(weigh_text(text) for text in told)
        is_full = len(values) >= self._count or self._bytes + size > self._limits.page_bytes_max
        if values and is_full:
            whole = [kept for kept in values if kept.revision < value.revision]
            if whole:
                self._values, self._next, self.is_done = whole, value.revision, True
                return False
        values.append(value)
        self._bytes += size
        return True


def _changes_of(changes: Changes, path: str, key: str, first: int, last: int) -> Iterator[PastValue]:
    """The rows of one entry, and those that tell the deletion of its environment."""
    places = {index for index, place in enumerate(changes.places) if place.path == path}
    if not places:
        return
    deleted = EventType.ENVIRONMENT_DELETED
    rows = _rows_of(changes.keys, key)
    if deleted in changes.types:
        rows = sorted({*rows, *(row for row in _rows_of(changes.types, deleted) if changes.path[row] in places)})
    for row in rows:
        type_, revision = changes.types[row], changes.revisions[row]
        if changes.path[row] in places and first <= revision <= last and (type_ in _OF_ENTRIES or type_ == deleted):
            yield PastValue(
                revision,
                type_,
                NOTHING if type_ == deleted else changes.told_value(row),
                changes.versions[row] if type_ != deleted else 0,
                changes.actors[row],
                changes.causes[row],
                changes.producers[row],
                changes.wall_ns,
                changes.values[row] if type_ == EventType.ENTRY_MOVED else (),  # type: ignore[arg-type]
            )


def _rows_of(column: list[str] | list[int], wanted: object) -> list[int]:
    """Indexes of `wanted`, at the speed of list.index."""
    found: list[int] = []
    at = -1
    try:
        while True:
            at = column.index(wanted, at + 1)  # type: ignore[arg-type]
            found.append(at)
    except ValueError:
        return found

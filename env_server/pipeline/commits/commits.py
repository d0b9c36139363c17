"""Commit groups: from applied to durable, and the one ordered queue of answers behind that.

    open group ──seal──► sealed, in flight (at most two) ──durable──► published ──► answers sent

A group is sealed in the loop step after its first change, or when the writer has room again, so that groups grow with
the load. An answer waits for the group that was open when it was made, if that holds anything: everything that the
answer saw is in it or before it. The order of the queue is the order of answers, so a read never overtakes a write.

With `ahead_ms_max`, an answer goes at once while all that it rests on is younger than that; when the disk does not keep
up, it waits as ever. What is published, and what asks for `when_seen`, is durable in any case.
"""

from collections import deque
from collections.abc import Callable, Iterator

from env_server.model.changes import Changes
from env_server.model.frames import Answer
from env_server.model.ports import Clock, CommitLog
from env_server.pipeline.commits.saving import Saving
from env_server.pipeline.frames.origins import pad_origins
from env_server.pipeline.listeners.depths import deepen_aggregates
from env_server.state_tree.tree import Tree

IN_FLIGHT_MAX = 2

Deliver = Callable[[Answer], None]


class Commits:
    """The open group of one world and those on their way to the disk."""

    def __init__(
        self,
        tree: Tree,
        log: CommitLog,
        clock: Clock,
        saving: Saving,
        published: Callable[[Changes], None],
        record_number: int,
        ahead_ms_max: int,
    ) -> None:
        self._tree = tree
        self._log = log
        self._clock = clock
        self._saving = saving
        self._published = published
        self._in_flight: deque[Changes] = deque()
        self._answers: deque[tuple[int, Deliver, Answer]] = deque()
        self._sealing = False
        self._urged = self._stopped = False
        self._ahead_ns_max = ahead_ms_max * 1_000_000
        #: When the first answer came that rests on the open group (0 = none has), and on each sealed one.
        self._begun_ns = 0
        self._sealed_begun_ns: deque[int] = deque()
        #: What the open group will hold, as far as it is known.
        self._bytes_expected = self._bytes_in_flight = 0
        self._idle: list[Callable[[], None]] = []
        #: Everything up to this record, and revision, is on the disk.
        self.durable_number = record_number
        self.durable_revision = tree.revision
        self._begin(record_number + 1)

    @property
    def group(self) -> Changes:
        """The open group."""
        return self._tree.changes

    @property
    def bytes_under_way(self) -> int:
        """Bytes of records that are not durable yet, the open group's included."""
        return self._bytes_expected + self._tree.repeated_bytes + self._bytes_in_flight

    def expect(self, size_bytes: int) -> None:
        """So many bytes are about to be written into the open group, perhaps."""
        if not _holds_anything(self._tree.changes):  # what was expected before has come to nothing
            self._bytes_expected = self._tree.repeated_bytes = self._tree.looked = 0
        self._bytes_expected += size_bytes

    def urge(self) -> None:
        """Commits soon, whether or not there is anything but a slice of state to write."""
        self._urged = True
        self._saving.urge()
        self.touch()

    def touch(self) -> None:
        """Call after anything was added to the open group: makes sure that it gets sealed."""
        if not (self._sealing or self._stopped) and len(self._in_flight) < IN_FLIGHT_MAX:
            self._sealing = True
            self._clock.call_soon(self._seal)

    def answer(self, deliver: Deliver, answer: Answer) -> int:
        """Sends `answer` when all that it rests on is durable, after the answers before it.

        Returns the number of the group that it waits for, 0 if it was sent at once.
        """
        group = self._tree.changes
        number = group.number if _holds_anything(group) else group.number - 1
        if number <= self.durable_number or (self._ahead_ns_max and self._may_be_ahead()):
            deliver(answer)
            return 0
        self._answers.append((number, deliver, answer))
        return number

    def when_seen(self, call: Callable[[], None]) -> None:
        """Calls once everything applied by now is durable, in the order of answers; at once when it is."""
        group = self._tree.changes
        number = group.number if _holds_anything(group) else group.number - 1
        if number <= self.durable_number:
            call()
        else:
            self._answers.append((number, lambda _: call(), Answer(0, 0, 0)))

    def durable(self, number: int) -> None:
        """The log's word that everything up to record `number` is on the disk."""
        in_flight, answers = self._in_flight, self._answers
        while in_flight and in_flight[0].number <= number:
            group = in_flight.popleft()
            self._sealed_begun_ns.popleft()
            self._bytes_in_flight -= group.size_bytes
            self.durable_revision = group.last_revision
            self._published(group)
        self.durable_number = number
        while answers and answers[0][0] <= number:
            _, deliver, answer = answers.popleft()
            deliver(answer)
        if _holds_anything(self._tree.changes) or self._urged:
            self.touch()
        elif not in_flight:
            waiting, self._idle = self._idle, []
            for call in waiting:
                call()

    @property
    def is_durable(self) -> bool:
        """Whether everything applied is on the disk, and told."""
        return not (self._in_flight or _holds_anything(self._tree.changes))

    def list_under_way(self) -> Iterator[Changes]:
        """The groups that are not published, in order: the last one still grows."""
        yield from self._in_flight
        if len(self._tree.changes):
            yield self._tree.changes

    @property
    def is_idle(self) -> bool:
        """Whether everything applied is durable and answered, and nothing is about to be committed."""
        under_way = self._in_flight or self._answers or self._sealing or self._urged
        return not (under_way or _holds_anything(self._tree.changes))

    def when_idle(self, call: Callable[[], None]) -> None:
        """Calls once everything applied is durable and answered; at once when it is."""
        if self._in_flight or _holds_anything(self._tree.changes):
            self._idle.append(call)
        else:
            call()

    def save_everything(self) -> None:
        """Queues what completes the state tables; for a clean stop, when idle. No group is sealed any more."""
        self._stopped = True  # an operation that awaits may still return, and has no effect
        for chunk in self._saving.everything(self.durable_number):
            group = self._tree.changes
            group.last_revision = self._tree.revision
            group.wall_ns = self._clock.wall_ns()
            self._log.append(group, chunk)
            self._begin(group.number + 1)

    def _seal(self) -> None:
        self._sealing = False
        if self._stopped:
            return
        tree = self._tree
        group = tree.changes
        if not _holds_anything(group) and not self._urged:
            return
        self._urged = False
        rows = len(group)
        tree.note_aggregates()
        if tree.timing is not None and tree.timing.any:
            tree.timing.settle()
        if group.extras and len(group) > rows:
            deepen_aggregates(group, rows)
        pad_origins(group, len(group))
        group.last_revision = tree.revision
        group.wall_ns = self._clock.wall_ns()
        self._log.append(group, self._saving.next_chunk(len(group), group.number))
        self._saving.note_bytes(group.size_bytes)
        self._saving.note_facts(group.facts)
        self._in_flight.append(group)
        self._sealed_begun_ns.append(self._begun_ns or self._clock.monotonic_ns())
        self._begun_ns = 0
        self._bytes_in_flight += group.size_bytes
        self._begin(group.number + 1)

    def _may_be_ahead(self) -> bool:
        """Whether the oldest of what is not durable is young enough, and no answer waits that came before."""
        now_ns = self._clock.monotonic_ns()
        if not self._begun_ns and _holds_anything(self._tree.changes):
            self._begun_ns = now_ns
        oldest_ns = self._sealed_begun_ns[0] if self._sealed_begun_ns else self._begun_ns
        return not (self._answers or self._stopped) and now_ns - oldest_ns < self._ahead_ns_max

    def _begin(self, number: int) -> None:
        self._bytes_expected = 0
        self._tree.begin_group(Changes(number=number, base_revision=self._tree.revision))


def _holds_anything(group: Changes) -> bool:
    return bool(group.keys or group.outcomes or group.answers or group.facts)

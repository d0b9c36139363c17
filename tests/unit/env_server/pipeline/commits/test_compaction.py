"""Compaction: nothing is lost that is needed, and a watch that meets it is complete or told so, never with a gap."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from env_server.events.history import History
from env_server.events.watch import Watch
from env_server.model.changes import Changes, EventType
from env_server.model.errors import OutOfRange, Reason, RevisionCompacted
from env_server.model.limits import Limits
from env_server.model.watching import Delivery, Filter, WatchSpec
from env_server.pipeline import World
from env_server.storage.memory import MemoryCommitLog
from tests.contracts.event_stream import Seen, check_event_stream, list_events
from tests.engine import Stand, drop, new_environment, put
from tests.told_world import tell_state
from tests.unit.env_server.events.worlds import drain, step

ROUNDS, ROUNDS_LONG = 2000, 20_000


class LoggedStand(Stand):
    """Keeps every record that was ever appended; reads of the log take some steps, in which others have their turn."""

    def __init__(self, **limits: Any) -> None:
        self.appended: list[Changes] = []
        self.read_steps = 0
        super().__init__(limits=Limits(**limits))

    def open(self) -> None:
        self.log = log = MemoryCommitLog.open(self.disk, self.clock, self.limits, lambda: "history-1")
        append = log.append

        def keep(changes: Changes, state: Any) -> None:
            append(changes, state)
            self.appended.append(changes)

        log.append = keep  # type: ignore[method-assign]

        async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
            for _ in range(self.read_steps):
                await asyncio.sleep(0)
            found = log.read(from_revision, bytes_max)
            for _ in range(self.read_steps):
                await asyncio.sleep(0)
            return found

        self.world = World("main", log, self.clock, self.limits, self.behaviours, read_log)
        log.start(call=lambda call, argument: call(argument), on_durable=self.world.durable, on_fatal=self.fatal.append)

    @property
    def history(self) -> list[Seen]:
        return [event for changes in self.appended for event in list_events(Delivery(changes, None, 0))]

    def compact(self, revision: int) -> int:
        done: list[int] = []
        self.world.compact(revision, done.append)
        self.clock.settle()
        assert len(done) == 1
        return done[0]

    def watch(self, from_revision: int) -> Watch:
        return self.world.watches.open(WatchSpec(Filter(), from_revision))


@pytest.fixture
def stand() -> LoggedStand:
    stand = LoggedStand(ring_bytes_max=1, replay_ops_max=100)
    stand.do(new_environment("/t"))
    for number in range(20):
        stand.do(put("/t", f"k{number % 3}", number))
    return stand


def test_the_log_begins_where_it_was_asked_to_and_the_state_stays(stand: LoggedStand) -> None:
    before = tell_state(stand.world._tree)
    assert stand.world.describe().first_retained_revision == 1
    assert stand.compact(10) == 10
    assert stand.compact(5) == 10, "lower than before: nothing comes back"
    assert stand.world.describe().first_retained_revision == 10
    assert stand.world.revision == 22, "no revision is taken"
    assert tell_state(stand.world._tree) == before
    stand.reopen()
    assert tell_state(stand.world._tree) == before
    assert stand.world.describe().first_retained_revision == 10


def test_zero_forgets_all_but_the_last_record(stand: LoggedStand) -> None:
    assert stand.compact(0) == 22
    assert stand.world.describe().first_retained_revision == 22


def test_a_revision_within_a_record_keeps_the_record(stand: LoggedStand) -> None:
    stand.do(*[put("/t", f"n{number}", number) for number in range(5)])
    assert stand.compact(25) == 23


def test_a_revision_that_is_not_there_is_refused(stand: LoggedStand) -> None:
    with pytest.raises(OutOfRange) as refused:
        stand.compact(23)
    assert refused.value.reason is Reason.REVISION_IN_FUTURE
    assert stand.compact(22) == 22


def test_what_is_retained_stays(stand: LoggedStand) -> None:
    stand.log.retain(7)
    assert stand.compact(15) == 7
    stand.log.retain(None)
    assert stand.compact(15) == 15


def test_many_records_go_in_one_request(stand: LoggedStand) -> None:
    for number in range(3000):
        stand.do(put("/t", "k", number))
    assert stand.compact(3000) == 3000
    assert stand.compact(0) == 3022


def test_a_world_that_stops_answers_those_who_wait(stand: LoggedStand) -> None:
    done: list[int] = []
    stand.world.compact(10, done.append)
    stand.stop()
    assert len(done) == 1
    assert 1 <= done[0] <= 10
    stand.open()
    assert stand.log.first_revision == 10


async def test_a_delete_at_the_boundary_is_delivered_and_below_it_is_an_error(stand: LoggedStand) -> None:
    deleted = stand.do(drop("/t", "k0")).written.revision
    stand.do(put("/t", "k1", 1))
    assert stand.compact(deleted) == deleted
    watch = stand.watch(deleted)
    events = [event for delivery in await drain(watch) for event in list_events(delivery)]
    assert (events[0].revision, events[0].type, events[0].key) == (deleted, EventType.ENTRY_DELETED, "k0")
    watch.close()
    with pytest.raises(RevisionCompacted) as refused:
        await step(stand.watch(deleted - 1))
    assert refused.value.metadata == {"asked": str(deleted - 1), "compacted": str(deleted)}


async def test_a_watch_that_is_overtaken_is_told_and_one_at_the_head_goes_on(stand: LoggedStand) -> None:
    for number in range(4):
        stand.do(put("/t", "big", str(number) * 20_000))  # more than a reader takes from the log at a time
    behind, live = stand.watch(23), stand.watch(0)
    first = await step(behind, events_max=1)
    assert first is not None
    assert [event.revision for event in list_events(first)] == [23]
    stand.compact(0)
    with pytest.raises(RevisionCompacted):
        for _ in range(30):  # what it had read already still comes
            await step(behind, events_max=1)
    stand.do(put("/t", "k1", "on"))
    assert [event.key for delivery in await drain(live) for event in list_events(delivery)] == ["k1"]
    live.close()


class Readers:
    """Watches that are read by and by; what each told is checked against all that was ever appended."""

    def __init__(self, stand: LoggedStand, rng: random.Random) -> None:
        self._stand = stand
        self._rng = rng
        self._open: list[tuple[Watch, int, list[Delivery]]] = []
        self.complete = 0
        self.overtaken = 0

    def begin(self) -> None:
        """One watch more, unless they are many."""
        if len(self._open) < 20:
            world = self._stand.world
            start = self._rng.randrange(max(1, self._stand.log.first_revision - 2), world.durable_revision + 1)
            self._open.append((self._stand.watch(start), start, []))

    async def read_some(self) -> None:
        """A step of a few of them."""
        some = self._rng.sample(self._open, min(3, len(self._open)))
        ended = [one for one in some if not await self._read(*one)]
        self._open = [one for one in self._open if one not in ended]

    async def finish(self) -> None:
        """All that are open, to their end."""
        self._stand.clock.settle()
        for watch, start, seen in self._open:
            try:
                seen += await drain(watch)
            except RevisionCompacted:
                check_event_stream(seen, self._stand.history, start - 1)
                self.overtaken += 1
                continue
            assert check_event_stream(seen, self._stand.history, start - 1) == self._stand.world.durable_revision
            self.complete += 1
            watch.close()
        self._open = []

    async def _read(self, watch: Watch, start: int, seen: list[Delivery]) -> bool:
        """One step; whether the watch goes on."""
        try:
            delivery = await step(watch, self._rng.choice([1, 3, 1000]), loop_steps=self._rng.randrange(1, 12))
        except RevisionCompacted as error:
            assert int(error.metadata["compacted"]) <= self._stand.log.first_revision
            through = check_event_stream(seen, self._stand.history, start - 1)
            assert int(error.metadata["asked"]) >= through
            self.overtaken += 1
            return False
        if delivery is not None:
            seen.append(delivery)
        return True


async def race(seed: int, rounds: int) -> tuple[int, int]:
    """Writers, compactions and watches in any order; how many watches were complete, and how many told of a gap."""
    rng = random.Random(seed)
    stand = LoggedStand(ring_bytes_max=400, replay_ops_max=60)
    stand.do(new_environment("/t"))
    readers = Readers(stand, rng)
    for number in range(rounds):
        if number % ROUNDS == ROUNDS - 1:
            await readers.finish()
        stand.read_steps = rng.randrange(4)
        chance = rng.random()
        if chance < 0.45:
            value = rng.choice([1, "x" * 9000])
            stand.do(*[put("/t", f"k{rng.randrange(5)}", value) for _ in range(rng.randrange(1, 4))])
        elif chance < 0.55:
            stand.do(drop("/t", f"k{rng.randrange(5)}"))
        elif chance < 0.65:
            stand.world.compact(rng.randrange(1, stand.world.durable_revision + 1), lambda first: None)
            for _ in range(rng.randrange(3)):
                stand.clock.step()
        elif chance < 0.75:
            readers.begin()
        else:
            await readers.read_some()
    await readers.finish()
    return readers.complete, readers.overtaken


async def test_watches_in_a_race_with_compactions_are_complete_or_told(seed: int) -> None:
    complete, overtaken = await race(seed, ROUNDS)
    assert complete + overtaken > 10, "this shows nothing"


async def test_a_planted_gap_is_noticed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A history that takes what the log still has for what was asked."""

    async def read(history: History, cursor: int) -> list[Changes]:
        return await history._read_log(max(cursor + 1, history._first_revision()), 1 << 20)

    monkeypatch.setattr(History, "read", read)
    with pytest.raises(AssertionError, match="step"):
        await race(seed, ROUNDS_LONG)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_watches_in_a_long_race_with_compactions_are_complete_or_told(seed: int) -> None:
    complete, overtaken = await race(seed, ROUNDS_LONG)
    assert min(complete, overtaken) > 5, "this shows nothing"

"""Random runs of consumers on the stand: they come, go, fall silent, wake up late; the world crashes and compacts.

Each event of /in is dealt with in a transaction that acknowledges it: it adds one to a counter of its key and appends
its revision to a stream of its key. In the end both tell whether every event had its effects once, and in order.
"""

from __future__ import annotations

import random

from env_server.model.errors import Fenced, WorldError
from env_server.model.frames import Transacted
from env_server.model.limits import Limits
from env_server.model.operations import Code, Precondition, Test, Transact, Write
from tests.engine import Op, Stand, add, new_environment, put
from tests.subscribing import Taker, ack_with, look, subscribe

KEYS = [f"k{number}" for number in range(12)]
NAMES = ["a", "b", "c", "d"]
EVENTS_A_COMMIT_MAX = 40


def fail_in_the_end(op: Op) -> Op:
    """The same transaction with one write more, which fails."""
    asked = op.argument
    assert isinstance(asked, Transact)
    failing = Write("/out", "never", Code.SET, 0, (Precondition(Test.EXISTS, path="/nowhere"),))
    return op._replace(argument=Transact(writes=(*asked.writes, failing)))


class Worker:
    """One life of a consumer."""

    def __init__(self, stand: Stand, name: str, outstanding_max: int) -> None:
        self.taker = Taker(stand, name, outstanding_max=outstanding_max)
        self.committed = 0

    async def read(self) -> None:
        """Takes what is at hand."""
        before = len(self.taker.assignments)
        await self.taker.take()
        if len(self.taker.assignments) > before:
            self.committed = self.taker.assignments[-1].cursor

    def plan_commit(self, chance: random.Random) -> tuple[Op, int] | None:
        """A transaction for some of what it holds, and the revision that it acknowledges."""
        held = [event for event in self.taker.events if event[0] > self.committed]
        if not self.taker.assignments or not held:
            return None
        wanted = held[: chance.randint(1, EVENTS_A_COMMIT_MAX)]
        revision = wanted[-1][0]
        wanted = [event for event in held if event[0] <= revision]
        effects = []
        for told, path, key in wanted:
            assert path == "/in"
            effects += [add("/out", key, 1), Op("/out", f"log-{key}", Code.APPEND, told)]
        return ack_with(self.taker.term, revision, *effects), revision


class SubscriptionRun:
    """One world with one subscription."""

    def __init__(self, chance: random.Random, partitions: int) -> None:
        self.chance = chance
        self.stand = Stand(limits=Limits(replay_ops_max=200))
        self.stand.done(new_environment("/in"), new_environment("/out"))
        self.stand.done(subscribe(partitions=partitions, path_prefix="/in", ack_timeout_ms=10_000, from_revision=4))
        self.written: dict[str, list[int]] = {key: [] for key in KEYS}
        self.working: dict[str, Worker] = {}
        self.silent: list[Worker] = []
        """Workers that the server gave up, or will; they do not know."""
        self.commits = self.fenced = 0

    async def run(self, steps: int) -> None:
        """Does so many things, then lets one consumer come to the end, and checks.

        Raises:
            AssertionError: an event had its effects twice, not at all, or too early.
        """
        actions = [*2 * [self._write], *2 * [self._join], *6 * [self._read], *8 * [self._commit]]
        actions += [*3 * [self._commit_late], self._leave, self._fall_silent, self._wait, self._compact]
        for _ in range(steps):
            if self.chance.random() < 0.02:
                self._restart()
            else:
                await self.chance.choice(actions)()
        await self._finish()
        self._check()

    async def _write(self) -> None:
        keys = self.chance.choices(KEYS, k=self.chance.randrange(1, 15))
        for key, written in zip(keys, self.stand.done(*[put("/in", key, 0) for key in keys]), strict=True):
            self.written[key].append(written.revision)  # type: ignore[union-attr]
        self.stand.done(put("/", "noise", 0))

    async def _join(self) -> None:
        name = self.chance.choice(NAMES)
        replaced = self.working.pop(name, None)
        if replaced is not None:
            self.silent.append(replaced)
        self.working[name] = Worker(self.stand, name, self.chance.choice((0, 1, 3, 20)))

    async def _read(self) -> None:
        for name, worker in list(self.working.items()):
            try:
                await worker.read()
            except Fenced:
                del self.working[name]
                self.silent.append(worker)

    async def _commit(self) -> None:
        if self.working:
            worker = self.working[self.chance.choice(sorted(self.working))]
            self._try(worker)
            if self.chance.random() < 0.3 and worker.taker.assignments:
                mark = worker.taker.consumer.mark()
                held = any(revision > worker.committed for revision, _, _ in worker.taker.events)
                if mark is not None and not held:
                    self.stand.do(ack_with(worker.taker.term, min(mark, worker.taker.through)))

    async def _commit_late(self) -> None:
        """Somebody wakes up and goes on with what it held."""
        if self.silent:
            self._try(self.chance.choice(self.silent))

    async def _leave(self) -> None:
        if self.working:
            worker = self.working.pop(self.chance.choice(sorted(self.working)))
            worker.taker.leave()
            self.silent.append(worker)  # its last transaction may still come

    async def _fall_silent(self) -> None:
        """Without a word: only the deadline tells."""
        if self.working:
            self.silent.append(self.working.pop(self.chance.choice(sorted(self.working))))

    async def _wait(self) -> None:
        self.stand.clock.advance(self.chance.choice((1, 6, 11)))

    async def _compact(self) -> None:
        self._forget_events()
        if self.chance.random() < 0.5:
            self.stand.clock.settle()

    def _try(self, worker: Worker) -> None:
        planned = worker.plan_commit(self.chance)
        if planned is None:
            return
        op, revision = planned
        if self.chance.random() < 0.05:
            self._commit_into_a_crash(op)
            return
        if self.chance.random() < 0.1:
            op = fail_in_the_end(op)
        outcome = self.stand.do(op).outcome()
        if isinstance(outcome, Transacted):
            self.commits += 1
            worker.committed = revision
        else:
            assert isinstance(outcome, WorldError)
            self.fenced += isinstance(outcome, Fenced)

    def _commit_into_a_crash(self, op: Op) -> None:
        """It is on its way, behind another commit and beside a compaction; nobody learns what came of it."""
        self._forget_events()
        self.stand.clock.settle()
        self.stand.send(put("/", "noise", 0))
        self.stand.clock.step()
        self.stand.send(op)
        for _ in range(self.chance.randrange(6)):
            self._forget_events()
            self.stand.clock.step()
        self._restart()

    def _forget_events(self) -> None:
        self.stand.world.compact(0, lambda _: None)

    def _restart(self) -> None:
        if self.chance.random() < 0.3:
            self.stand.stop()
            self.stand.open()
        else:
            self.stand.reopen()
        # Their streams have ended, and they do not know yet what came of their last transactions.
        self.silent = [*self.silent, *self.working.values()][-8:]
        for worker in self.silent:
            worker.taker.stand = self.stand
        self.working = {}

    async def _finish(self) -> None:
        for worker in (*self.working.values(), *self.silent):
            worker.taker.leave()  # the connections of the silent ones have been found dead
        last = Worker(self.stand, "last", 0)
        while True:
            await last.read()
            planned = last.plan_commit(self.chance)
            if planned is None:
                break
            (done,) = self.stand.done(planned[0])
            assert isinstance(done, Transacted)
            last.committed = planned[1]

    def _check(self) -> None:
        state = look(self.stand)
        assert not state.lapsed
        assert state.consumers[-1].outstanding_events == 0
        node = self.stand.world._tree.nodes.find("/out")
        for key, revisions in self.written.items():
            entry = node.entries.get(key)
            assert (entry.value if entry else 0) == len(revisions), f"{key}: effects of {len(revisions)} events"
            stream = node.streams.get(f"log-{key}")
            log = [item.value for item in stream.items] if stream is not None else []
            assert log == revisions, f"{key}: out of order"

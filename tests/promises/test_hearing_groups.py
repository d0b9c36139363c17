"""No jump of an event-driven clock passes what a participant may hear in the view of its group, however grants change.

Beside each participant stands a watch of what it hears, which it reads late, begins anew now and then, and must when a
right goes. At each jump two judges look: its own watch must have nothing left for it, nor may a watch that begins in
this moment where it has said to have got.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from env_server.events.watch import Watch
from env_server.model.changes import EventType
from env_server.model.environments import Access, Declaration, Grant
from env_server.model.errors import DeniedView, WorldError
from env_server.model.operations import Code, Delete, EnvironmentUpdate, RegisterEnvironment, SetTimer, Transact, Write
from env_server.model.watching import Filter, WatchSpec
from env_server.pipeline.timekeeping.hearings import Hearings
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.timeline.timeline import Timeline
from tests.attended import Worker, make_town
from tests.engine import Op, drop, new_environment, put
from tests.unit.env_server.events.worlds import drain

WORKERS = "/town/workers"
FAR = ("/far", "/far/hut", "/sea")
GROUPS = ("/g", "/far/hut")
HEARS: tuple[tuple[Filter, ...], ...] = (
    (Filter(path_prefix="/far"),),
    (Filter(path_prefix="/far/hut", key_glob="k1"), Filter(path_prefix="/sea")),
    (Filter(path_glob="/*"), Filter(types=frozenset({int(EventType.ENTRY_SET)}))),
)


class Wrong(AssertionError):
    """A jump that should not have been, or none that should."""


class Ear:
    """A participant with its watch."""

    def __init__(self, key: str, group: str, filters: tuple[Filter, ...], joined: int) -> None:
        self.key, self.group, self.filters, self.joined = key, group, filters, joined
        self.watch: Watch | None = None
        self.read = self.said = joined


class Countryside:
    """The town, what is granted around it, and who hears of that."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        self.chance = random.Random(seed)
        self.loop = loop
        self.stand = make_town()
        self.stand.done(*map(new_environment, FAR))
        self.worker = Worker(self.stand)
        self.ears: list[Ear] = []
        self.jumps = self.joins = 0

    def run(self, steps: int) -> None:
        """So many random steps, then everybody reads everything until nothing is due."""
        actions = [self._put] * 4 + [self._grant] * 4 + [self._read] * 6 + [self._report] * 6 + [self._step] * 6
        actions += [self._timer] * 2 + [self._delete, self._make, self._transact, self._join, self._leave, self._reopen]
        for _ in range(steps):
            self.chance.choice(actions)()
        self._come_to_rest()

    # -- the judges --

    def judge(self) -> None:
        """Looks at a jump that is about to be."""
        self.jumps += 1
        for ear in self.ears:
            own: list[int] = []
            if ear.watch is not None:
                with suppress(DeniedView):  # a right has gone, and it has nothing more to tell
                    own = self._drain(ear.watch)
            try:
                anew = self._drain(self._open(ear, ear.said + 1))
            except DeniedView as error:
                raise Wrong(f"{ear.key} can hear nothing: {error.message}") from error
            for told in (own, anew):
                if any(revision > ear.said for revision in told):
                    raise Wrong(f"{ear.key} has consumed {ear.said} and is yet to hear {told}")

    def _open(self, ear: Ear, revision: int) -> Watch:
        first, *rest = ear.filters
        return self.stand.world.watches.open(
            WatchSpec(first, from_revision=revision, group=ear.group, also=tuple(rest))
        )

    def _drain(self, watch: Watch) -> list[int]:
        """Revisions of all that the watch has to tell now."""
        deliveries = self.loop.run_until_complete(drain(watch))
        return [
            delivery.changes.revisions[row]
            for delivery in deliveries
            if delivery.changes is not None
            for row in (range(len(delivery.changes)) if delivery.rows is None else delivery.rows)
        ]

    # -- what happens --

    def _put(self) -> None:
        self.stand.send(put(self.chance.choice(FAR), f"k{self.chance.randrange(2)}", 1))

    def _some_grants(self) -> tuple[Grant, ...]:
        groups = [group for group in (*GROUPS, "*") if self.chance.random() < 0.3]
        return tuple(Grant(group, self.chance.choice([Access.READ, Access.WRITE])) for group in groups)

    def _regrant(self) -> EnvironmentUpdate:
        taken = tuple(group for group in (*GROUPS, "*") if self.chance.random() < 0.5)
        return EnvironmentUpdate(set_grants=self._some_grants(), remove_grants=taken or ("*",))

    def _grant(self) -> None:
        self.stand.send(Op(self.chance.choice(FAR), "", Code.UPDATE_ENVIRONMENT, self._regrant()))

    def _transact(self) -> None:
        writes: tuple[Write, ...] = (
            Write("/far", "", Code.UPDATE_ENVIRONMENT, self._regrant()),
            Write("/far/hut", "", Code.DELETE_ENVIRONMENT, Delete(if_present=True)),
            Write("/far", "k1", Code.SET, 1),
        )
        if self.chance.random() < 0.6:
            writes += (Write("/nowhere", "x", Code.SET, 1),)
        self.stand.send(Op("/", "", Code.TRANSACT, Transact(writes=writes)))

    def _delete(self) -> None:
        asked = Delete(recursive=True, if_present=True)
        self.stand.send(Op(self.chance.choice(FAR), "", Code.DELETE_ENVIRONMENT, asked))

    def _make(self) -> None:
        for path in FAR:
            asked = RegisterEnvironment(Declaration(grants=self._some_grants()), if_absent=True)
            self.stand.send(Op(path, "", Code.REGISTER_ENVIRONMENT, asked))

    def _timer(self) -> None:
        at_ns = self.stand.world.timekeeping.see("/town").state.now_ns + self.chance.randrange(40)
        self.stand.send(Op("/town", f"t{self.chance.randrange(3)}", Code.SET_TIMER, SetTimer(at_ns=at_ns)))

    def _join(self) -> None:
        if len(self.ears) >= 3:
            return
        self.joins += 1
        key, group, filters = f"w{self.joins}", self.chance.choice(GROUPS), self.chance.choice(HEARS)
        told = [
            {name: value for name, value in (("path_prefix", one.path_prefix), ("path_glob", one.path_glob)) if value}
            | ({"key_glob": one.key_glob} if one.key_glob else {})
            | ({"types": ["entry_set"]} if one.types else {})
            for one in filters
        ]
        value: dict[str, Any] = {"group": group, "hears": told}
        self.ears.append(Ear(key, group, filters, self.worker.join(key, value)))

    def _leave(self) -> None:
        if len(self.ears) > 1:
            self.stand.done(drop(WORKERS, self.ears.pop(0).key))

    def _read(self) -> None:
        if self.ears:
            self.read(self.chance.choice(self.ears))

    def read(self, ear: Ear) -> None:
        """It consumes what its watch tells, perhaps of one that begins where the last one was."""
        if ear.watch is not None and self.chance.random() < 0.2:
            ear.watch.close()
            ear.watch = None
        try:
            if ear.watch is None:
                ear.watch = self._open(ear, ear.read + 1)
            self._drain(ear.watch)
        except WorldError:
            ear.watch = None
        else:
            ear.read = max(ear.read, ear.watch.reached())

    def _report(self) -> None:
        if self.ears:
            self.report(self.chance.choice(self.ears))

    def report(self, ear: Ear) -> None:
        """It says what is true."""
        ear.said = ear.read
        self.worker.say(ear.key, ear.joined, consumed_revision=ear.read)

    def _step(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.stand.clock.step()

    def _reopen(self) -> None:
        if self.chance.random() < 0.3:
            self.stand.reopen()
            self.worker = Worker(self.stand)
            for ear in self.ears:
                ear.watch, ear.read = None, min(ear.read, self.stand.world.revision)

    def _come_to_rest(self) -> None:
        everything = tuple(Grant(group, Access.READ) for group in GROUPS)
        self._make()
        for path in FAR:
            self.stand.do(Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_grants=everything)))
        if not self.ears:
            self._join()
        for _ in range(100):
            for ear in self.ears:
                self.read(ear)
                self.report(ear)
            self.stand.clock.settle()
            self.stand.clock.advance(0.05)
            if not self.stand.world.timekeeping.see("/town").timers:
                return
        raise Wrong(f"does not come to rest: {self.stand.world.timekeeping.see('/town').held_by}")


@contextmanager
def judged(seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Countryside]:
    """With a judge before every jump."""
    print(f"seed {seed}")
    jump = Jumping._jump
    loop = asyncio.new_event_loop()
    countryside = Countryside(seed, loop)

    def judge_then_jump(self: Jumping, timeline: Timeline, to_ns: int) -> bool:
        countryside.judge()
        return jump(self, timeline, to_ns)

    with monkeypatch.context() as patched:
        patched.setattr(Jumping, "_jump", judge_then_jump)
        try:
            yield countryside
        finally:
            loop.close()


def run(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = 0
    for seed in seeds:
        with judged(seed, monkeypatch) as countryside:
            countryside.run(200)
        jumps += countryside.jumps
    assert jumps > 2 * len(seeds), "too few to say anything"


def test_every_jump_is_heard_by_all_that_may_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    run(range(40), monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_jump_of_many_is_heard_by_all_that_may_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    run(range(40, 1600), monkeypatch)


def test_a_clock_that_heeds_no_grants_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hearings, "heed_grants", lambda self: [])
    with pytest.raises(Wrong):
        run(range(400), monkeypatch)

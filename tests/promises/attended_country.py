"""Two event-driven clocks, one below the other, and all that a world can do around them, under the judge of each jump.

More than AttendedTown draws: participants of both clocks, in groups whose rights come and go, under leases that end,
behind fences that fall; aggregates and regions that are heard; operations that await with their keys held, ops that
wait for them, transactions, refused ops and reports in one step; listeners that are slow; clean stops.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from env_server.behaviours.behaviour import Behaviour, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.model.changes import EventType
from env_server.model.clock_reports import ReportVoid
from env_server.model.environments import Access, Aggregate, Function, Grant
from env_server.model.operations import (
    ClockAction,
    Code,
    EnvironmentUpdate,
    GrantLease,
    Precondition,
    RegisterEntry,
    SetTimer,
    Test,
    Transact,
    Write,
)
from env_server.model.spaces import Box, Grid, Region, Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.timeline.timeline import Timeline
from tests.attended import Worker, control, timer
from tests.engine import Op, drop, invoke, new_environment, put
from tests.promises.attended_machine import AttendedTown, Mind, Row, Wrong

QUARTER, QUARTER_STAFF, GROUP, LOCKS = "/town/quarter", "/staff", "/guild", "/locks"
LOOKAHEAD_NS = 25
MEMBER = 4
HEARS: tuple[dict[str, Any] | None, ...] = (
    {"hears": [{"path_prefix": "/sums", "types": ["aggregate_changed"]}]},
    {"hears": [{"path_glob": "/fields/*", "types": ["region_entered", "region_left"]}]},
    {"hears": [{"path_prefix": QUARTER}, {"path_prefix": "/slow"}]},
    {"group": GROUP, "hears": [{"path_prefix": "/far"}]},
)


class Slow(Behaviour):
    """Its operation holds an entry for a while, and then writes it."""

    kind = "slow"
    life: ClassVar[int] = 0
    running: ClassVar[Counter[int]] = Counter()
    """By life of the world: of those before it something may end late."""

    @operation()
    async def ponder(self, ctx: Context, fails: bool) -> None:
        """Takes a while; may fail."""
        life = Slow.life
        Slow.running[life] += 1
        try:
            await ctx.sleep(0.03)
        finally:
            Slow.running[life] -= 1
        if fails:
            raise RuntimeError("pondered in vain")
        ctx.set("held", 1)


class Ear(Behaviour):
    """Hears of noise, slowly; at times it fails."""

    kind = "ear"
    heard: ClassVar[int] = 0

    @listener(key="noise", writes=lambda path, event: [])
    async def hear(self, ctx: Context, event: Event) -> None:
        """Takes a while."""
        await ctx.sleep(0.03)
        Ear.heard += 1


class Mindful(Worker):
    """What counts no more is forgotten."""

    def __init__(self, country: AttendedCountry, path: str) -> None:
        super().__init__(country.stand, path)
        self.country = country

    def void(self, void: ReportVoid) -> None:
        """See Reporter."""
        super().void(void)
        mind = self.country.minds.get(void.key)
        if mind is not None and mind.set_revision == void.set_revision:
            mind.forget_said()


class AttendedCountry(AttendedTown):
    """The town with a quarter that has a clock of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Slow(), Ear())
        stand = self.stand
        Slow.life += 1
        Ear.heard = self.noises = 0
        self.granted = False
        self.fence = 0
        self.leased: dict[str, int] = {}
        self.worker, self.quarter_worker = Mindful(self, "/town"), Mindful(self, QUARTER)
        total = Aggregate("total", Function.SUM)
        space = Space(Grid(8, 8), (Region("gate", Box((0.0, 0.0), (3.0, 3.0))),))
        stand.done(
            new_environment(QUARTER_STAFF),
            new_environment("/sums", aggregates=(total,)),
            new_environment("/fields"),
            new_environment("/deaf"),
            new_environment("/fields/east", space=space),
            new_environment("/slow", kind="slow"),
            new_environment(GROUP),
            new_environment(LOCKS),
        )
        clock = ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path=QUARTER_STAFF, lookahead_ns=LOOKAHEAD_NS)
        stand.done(new_environment(QUARTER, clock=clock))
        if self.chance.random() < 0.2:
            stand.done(new_environment("/ear", kind="ear"))
            self.has_ear = True
        else:
            self.has_ear = False
        self._grant()
        self._relock()
        self.hears = (*self.hears, *HEARS)

    def list_actions(self) -> list[Any]:
        """More of them."""
        more = [self._batch] * 4 + [self._elsewhere] * 4 + [self._join_quarter, self._grant, self._relock]
        return [*super().list_actions(), *more, self._join_leased, self._stop]

    def judge(self, timeline: Timeline, to_ns: int) -> None:
        """Also what the others do, and the clock above."""
        there = self.stand.world._tree.nodes.by_path["/town/workers"].entries
        for key in [key for key in self.leased if key not in there]:
            del self.leased[key]
            self.minds.pop(key, None)
        super().judge(timeline, to_ns)
        if Slow.running[Slow.life]:
            raise Wrong("jumps while an operation runs")
        if self.has_ear and Ear.heard < self._count_noises():
            raise Wrong(f"jumps although {self._count_noises()} noises were made and {Ear.heard} heard")
        path = self.path_of(timeline)
        if path == QUARTER and to_ns > max(timeline.state.now_ns, self._now_ns() + LOOKAHEAD_NS):
            raise Wrong(f"jumps to {to_ns} ahead of {self._now_ns()}")
        place = self.place_of(path)
        if any(row[2] == place for row in self._list_under_way()):
            raise Wrong("jumps although somebody comes or goes")

    def place_of(self, path: str) -> str:
        """Where who takes part is."""
        return QUARTER_STAFF if path == QUARTER else super().place_of(path)

    def is_owed(self, mind: Mind, row: Row) -> bool:
        """In groups: what they see; that they see more is owed, too."""
        _, kind, path, _, _ = row
        if (mind.hears or {}).get("group") != GROUP:
            return super().is_owed(mind, row)
        if kind == EventType.ENVIRONMENT_UPDATED and path == "/far":
            return False  # of grants nobody is told; see _grant
        return super().is_owed(mind, row) and (self.granted or kind == EventType.CLOCK_CHANGED)

    def _list_under_way(self) -> list[Row]:
        """With what is still to be written of sums."""
        rows = super()._list_under_way()
        written = {EventType.ENTRY_SET, EventType.ENTRY_DELETED}
        sealed = self.stand.world._commits.durable_revision
        told = {row[0] for row in rows if row[1] == EventType.AGGREGATE_CHANGED}
        open_rows = self.stand.world._commits.group
        for revision, kind in zip(open_rows.revisions, open_rows.types, strict=True):
            if kind in written and revision > sealed and revision not in told:
                place = next(row for row in rows if row[0] == revision)[2]
                if place == "/sums":
                    rows.append((revision, EventType.AGGREGATE_CHANGED, "/sums", "total", None))
        return rows

    def _count_noises(self) -> int:
        return self.noises

    def _ops(self) -> list[Op]:
        """Some ops of all kinds."""
        chance, number = self.chance, self.chance.randrange(3)
        kinds: list[Any] = [
            lambda: put("/sums", f"s{number}", chance.randrange(5)),
            lambda: put("/far", f"k{number}", number),
            lambda: put("/nowhere", "x", 1),
            lambda: put("/far", "k0", 1, version=10**6),
            lambda: put("/slow", "held", 2),
            lambda: put("/fields/east", f"m{number}", 1),
            lambda: Op(
                "/fields/east", f"m{number}", Code.MOVE, (float(chance.randrange(8)), float(chance.randrange(8)))
            ),
            lambda: invoke("/slow", "ponder", fails=chance.random() < 0.3),
            lambda: Op(QUARTER, f"t{number}", Code.SET_TIMER, SetTimer(at_ns=self._now_ns() + chance.randrange(60))),
            lambda: self._transact(number),
            lambda: put("/far", f"k{number}", 1, fence=Precondition(Test.CREATED_REVISION, self.fence, LOCKS, "part")),
        ]
        return [chance.choice(kinds)() for _ in range(chance.randrange(1, 4))]

    def _transact(self, number: int) -> Op:
        fails = self.chance.random() < 0.3
        writes = (
            Write("/sums", f"s{number}", Code.SET, number),
            Write("/town/square", "k1", Code.SET, number),
            Write(QUARTER, "t9", Code.SET_TIMER, SetTimer(at_ns=self._now_ns() + 5)),
            Write("/nowhere" if fails else "/far", "k2", Code.SET, number),
        )
        return Op("/", "", Code.TRANSACT, Transact(writes=writes))

    def _elsewhere(self) -> None:
        deadline_s = self.chance.choice([0.0, 0.0, 0.01])
        self.stand.send(*self._ops(), deadline_s=deadline_s)
        if self.has_ear and self.chance.random() < 0.2:
            self.noises += 1
            self.stand.send(put("/ear", "noise", 1))
        if self.chance.random() < 0.3:
            self.stand.clock.advance(self.chance.choice([0.005, 0.02, 0.04]))

    def _batch(self) -> None:
        """Ops and reports behind them, in one message."""
        self.stand.send(put("/deaf", "z", 1), *(self._ops() if self.chance.random() < 0.4 else ()))
        if self.chance.random() < 0.4:
            self._report()
            return
        clock = self.chance.choice(["/town", QUARTER])
        for mind in self.minds.values():
            if mind.clock == clock:
                mind.read = self._durable()
                self.say(mind)

    def _join_quarter(self) -> None:
        self._number += 1
        if sum(mind.clock == QUARTER for mind in self.minds.values()) < 3:
            key, hears = f"q{self._number}", self.chance.choice(self.hears)
            self.minds[key] = Mind(key, hears, self.quarter_worker.join(key, hears, QUARTER_STAFF), QUARTER)

    def _join_leased(self) -> None:
        """A member that goes by itself."""
        if len(self.minds) > 5:
            return
        self._number += 1
        key = f"m{self._number}"
        lease = self.stand.done(Op("/", "", Code.GRANT_LEASE, GrantLease(2_000)))[0].revision  # type: ignore[union-attr]
        join = Op("/town/workers", key, Code.REGISTER_ENTRY, RegisterEntry(MEMBER, lease=lease))
        self.minds[key] = Mind(key, None, self.stand.done(join)[0].revision)  # type: ignore[union-attr]
        self.leased[key] = lease

    def _grant(self) -> None:
        """The group is granted /far, or not any more; with something else in the same commit."""
        self.granted = not self.granted
        update = EnvironmentUpdate(remove_grants=(GROUP,))
        if self.granted:
            update = EnvironmentUpdate(set_grants=(Grant(GROUP, Access.READ),))
        sent = self.stand.send(Op("/far", "", Code.UPDATE_ENVIRONMENT, update), put("/far", "k0", 3))
        if self.chance.random() < 0.5:
            self._report()
        self.stand.clock.settle()
        revision = sent.outcome().revision  # type: ignore[union-attr]
        for mind in self.minds.values():
            if (mind.hears or {}).get("group") == GROUP:
                mind.floor = revision

    def _relock(self) -> None:
        """Who was behind the fence is not any more."""
        ops = [drop(LOCKS, "part")] if self.fence else []
        made = self.stand.done(*ops, Op(LOCKS, "part", Code.REGISTER_ENTRY, RegisterEntry(1)))
        self.fence = made[-1].revision  # type: ignore[union-attr]

    def _stop(self) -> None:
        """A clean stop, whatever is under way."""
        if self.chance.random() < 0.3:
            self._forget_all_said()
            self.stand.stop()
            self.stand.open()
            self._begin_again()

    def _begin_again(self) -> None:
        super()._begin_again()
        self.worker, self.quarter_worker = Mindful(self, "/town"), Mindful(self, QUARTER)
        Slow.life += 1
        if self.has_ear:
            self.stand.clock.advance(1.0)
            self.noises = Ear.heard = 0

    def _end_stream(self) -> None:
        self.quarter_worker.end()
        for mind in self.minds.values():
            if mind.clock == QUARTER:
                mind.forget_said()
        super()._end_stream()

    def worker_of(self, mind: Mind) -> Worker:
        """Through which it reports."""
        return self.quarter_worker if mind.clock == QUARTER else self.worker

    def _let_all_come_to_rest(self) -> None:
        self.stand.clock.advance(2.0)  # leases end
        for key in list(self.leased):
            self.minds.pop(key, None)
        self.stand.do(control(ClockAction.RESUME, path=QUARTER))
        self.quarter_worker.end()
        if not any(mind.clock == QUARTER for mind in self.minds.values()):
            self._join_quarter()
        if not self.granted:
            self._grant()
        # The clock below gets no farther than this one lets it.
        self.stand.done(timer("/town", "last", self._now_ns() + 300))
        super()._let_all_come_to_rest()

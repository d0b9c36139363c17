"""The machine in full: besides, time passes, leases end, the log is compacted, a consumer comes and goes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from env_server.model.changes import EventType
from env_server.model.entries import MEMBER, VALUE
from env_server.model.errors import RevisionCompacted, WorldError
from env_server.model.operations import Acknowledge, Code, Delete, RegisterEntry, Transact, Write
from env_server.model.subscriptions import Assignment, CreateSubscription
from env_server.model.watching import Filter
from env_server.subscriptions.consumer import Consumer
from tests.engine import Op
from tests.leased import grant, kept, living, revoke
from tests.promises.asks import KEYS, PATHS
from tests.promises.engine_machine import LIMITS, EngineMachine, picture_of_world, told_by
from tests.promises.living_model import NEVER, Happened, LivingModel, picture_of_life
from tests.promises.world_model import SPATIAL, Ask, Said, Told

SWEEP_ENTRIES_MAX = 3
TTLS_MS = st.sampled_from([1_000, 3_000, 20_000])
WHICH = st.sampled_from([0, 0, 0, 1, 1, 2, 9])
OLD_TYPES = EngineMachine.types
TYPES = OLD_TYPES | {
    EventType.MEMBER_JOINED,
    EventType.MEMBER_LEFT,
    EventType.MEMBER_EXPIRED,
    EventType.LEASE_GRANTED,
    EventType.LEASE_ENDED,
}
TICK_MS = LIMITS.lease_tick_ms
SWEEP_S = 0.05
NAME = "s"
ACK_TIMEOUT_MS = 30_000


class LivingMachine(EngineMachine):
    """Adds leases, members, time, compaction and one subscription whose consumer comes, goes, and is replaced."""

    limits = replace(LIMITS, lease_sweep_entries_max=SWEEP_ENTRIES_MAX)
    types = TYPES

    def __init__(self) -> None:
        super().__init__()
        self.model: LivingModel
        self.deadlines_ms: dict[int, float] = {}
        self.clock_seen = self.stand.clock
        self.consumer: Consumer | None = None
        self.consumed: list[Told] = []
        self.delivered_from = 0
        self.fenced: list[int] = []
        self.renewed_ms = 0.0
        #: The highest revision that was asked to be the oldest: what could not go then may go later.
        self.compacted = 1
        asked = CreateSubscription(NAME, Filter(types=TYPES), 1, ACK_TIMEOUT_MS, 1_000_000, from_revision=1)
        created = self.stand.do(Op("/", "", Code.CREATE_SUBSCRIPTION, asked)).written
        self.model.revision = created.revision

    def new_model(self) -> LivingModel:
        return LivingModel(declared=SPATIAL)

    # ---- leases ----

    @rule(ttl_ms=TTLS_MS)
    def grant_a_lease(self, ttl_ms: int) -> None:
        said = self.model.apply(Ask("grant", "/", value=ttl_ms))
        assert self.stand.do(grant(ttl_ms, "")).written.revision == said.revision
        self.deadlines_ms[said.revision] = self.now_ms + ttl_ms

    @rule(place=st.tuples(PATHS, KEYS), which=WHICH, is_member=st.booleans())
    def put_under_a_lease(self, place: tuple[str, str], which: int, is_member: bool) -> None:
        path, key = place
        if not self.model.leases:
            self.grant_a_lease(1_000)
        lease = self.choose_lease(which)
        ask = Ask("join" if is_member else "hold", path, key, (lease, which))
        op = Op(path, key, Code.REGISTER_ENTRY, RegisterEntry(MEMBER if is_member else VALUE, which, lease=lease))
        self.send_ops([op], [self.model.apply(ask)])

    @rule(which=WHICH)
    def revoke_a_lease(self, which: int) -> None:
        lease = self.choose_lease(which)
        self.send_ops([revoke(lease)], [self.model.apply(Ask("revoke", "/", value=lease))])

    @rule(place=st.tuples(PATHS, KEYS), is_member=st.booleans())
    def revoke_a_lease_with_something_under_it(self, place: tuple[str, str], is_member: bool) -> None:
        self.put_under_a_lease(place, 0, is_member)
        self.revoke_a_lease(0)
        self.clear_up()

    @rule(which=WHICH, steps=st.integers(0, 6))
    def crash_while_a_lease_ends(self, which: int, steps: int) -> None:
        """Whatever part of it was done, the rest is done after the restart; the op is there once."""
        self.clear_up()
        lease = self.choose_lease(which)
        if lease not in self.model.leases:
            return
        self.seq += 1
        sent = self.stand.send(revoke(lease), client_id="c", seq=self.seq)
        for _ in range(steps):
            self.stand.clock.step()
            self.stand.clock.advance(0.0)
        self.stand.reopen()
        self.catch_up({lease: "revoked"})
        again = self.stand.resend(sent)
        self.stand.clock.settle()
        assert again.done
        self.open_watch()
        self.catch_up({lease: "revoked"})
        assert lease not in self.model.leases
        self.clear_up()

    @rule(which=WHICH)
    def keep_alive(self, which: int) -> None:
        self.keep(self.choose_lease(which))

    @rule(which=WHICH)
    def keep_alive_beyond_its_time(self, which: int) -> None:
        """Kept again in the middle of its time, a lease outlives it."""
        lease = self.choose_lease(which)
        for _ in range(3):
            self.keep(lease)
            if lease not in self.model.leases:
                break
            self.let_time_pass(self.model.leases[lease] * 0.6 / 1000)
            assert lease in self.model.leases

    def keep(self, lease: int) -> None:
        self.catch_up({})
        is_alive = lease in self.model.leases
        assert kept(self.stand, lease) == (([lease], []) if is_alive else ([], [lease]))
        if is_alive:
            self.deadlines_ms[lease] = self.now_ms + self.model.leases[lease]

    @rule(seconds=st.sampled_from([0.2, 0.9, 2.5, 30.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.catch_up({})
        holds_any = self.consumer is not None and self.consumer.outstanding_events > 0
        self.stand.clock.advance(seconds)
        if self.consumer is not None and holds_any and self.renewed_ms + ACK_TIMEOUT_MS <= self.now_ms:
            self.fenced.append(self.consumer.term)
            self.consumer = None
        due = {lease: "expired" for lease in self.model.leases if self.deadlines_ms[lease] <= self.now_ms}
        overdue = [lease for lease in due if self.deadlines_ms[lease] + 2 * TICK_MS <= self.now_ms]
        self.catch_up(due)
        assert not set(overdue) & set(self.model.leases), "a lease lives on after its time"
        self.clear_up()

    # ---- compaction ----

    @rule(back=st.integers(0, 8))
    def compact(self, back: int) -> None:
        """The log forgets; a watch that stood below is told so, and begins anew with what is retained."""
        self.catch_up({})
        done: list[int] = []
        asked = max(1, self.stand.world.durable_revision - back)
        self.compacted = max(self.compacted, asked)
        before = self.stand.log.first_revision
        self.stand.world.compact(asked, done.append)
        self.stand.clock.settle()
        assert done == [self.stand.log.first_revision]
        assert before <= done[0] <= self.compacted
        self.pass_over()

    def pass_over(self) -> None:
        """Who compacts lets the cursor of a consumer that holds nothing pass over what is for nobody."""
        cursor = self.stand.world.subscriptions.find(NAME).cursor
        if cursor > self.model.cursor:
            assert self.consumer is not None and not self.consumer.outstanding_events
            assert not [one for one in self.model.events if self.model.cursor < one.revision <= cursor]
            self.model.cursor = cursor

    # ---- the subscription ----

    @rule(outstanding_max=st.sampled_from([1, 4, 1000]))
    def attach_a_consumer(self, outstanding_max: int) -> None:
        """It replaces the one before, and begins behind what was acknowledged."""
        self.catch_up({})
        if self.consumer is not None and self.consumer.term:
            self.fenced.append(self.consumer.term)
        self.consumer = self.stand.world.subscriptions.attach(NAME, "consumer", outstanding_max)
        self.stand.clock.settle()
        self.consumed, self.delivered_from = [], self.model.cursor
        self.consume()

    @rule()
    def consume(self) -> None:
        if self.consumer is not None:
            self.catch_up({})
            if not self.consumer.outstanding_events:
                self.renewed_ms = self.now_ms
            self.loop.run_until_complete(self.read_consumer(self.consumer))
            expected = [
                one for one in self.model.events if self.delivered_from < one.revision <= self.consumer.delivered
            ]
            assert self.consumed == expected, "in order, without a gap, from the cursor on"

    @rule(back=st.integers(0, 4), is_fenced=st.booleans(), fails=st.booleans())
    def acknowledge_in_a_transaction(self, back: int, is_fenced: bool, fails: bool) -> None:
        """The cursor moves with the effect, or neither."""
        if self.consumer is None:
            self.attach_a_consumer(1000)
        term = self.fenced[-1] if is_fenced and self.fenced else self.consumer.term if self.consumer else NEVER
        delivered = self.consumer.delivered if self.consumer else 0
        upto = max(0, delivered - back)
        is_current = self.consumer is not None and term == self.consumer.term
        writes = acknowledging(term, upto) + (FAILING,) * fails
        outcome = self.stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).outcome()
        if is_current and not fails:
            assert not isinstance(outcome, WorldError), outcome
            self.renewed_ms = self.now_ms
            self.model.apply(Ask("set", "/", "seen", upto))
            self.model.cursor = max(self.model.cursor, upto)
        else:
            assert isinstance(outcome, WorldError)

    @rule(steps=st.integers(0, 5), back=st.integers(0, 4))
    def crash_with_an_acknowledgement_in_flight(self, steps: int, back: int) -> None:
        """After the restart both are there or neither; who consumed before is fenced."""
        self.clear_up()
        if self.consumer is None:
            return
        term, upto = self.consumer.term, max(0, self.consumer.delivered - back)
        self.stand.send(Op("/", "", Code.TRANSACT, Transact(writes=acknowledging(term, upto))))
        for _ in range(steps):
            self.stand.clock.step()
        self.stand.reopen()
        if self.stand.world.revision > self.model.revision:
            self.model.apply(Ask("set", "/", "seen", upto))
            self.model.cursor = max(self.model.cursor, upto)
        self.open_watch()
        outcome = self.stand.do(Op("/", "", Code.TRANSACT, Transact(writes=acknowledging(term, upto)))).outcome()
        assert isinstance(outcome, WorldError), "a term survives no restart"

    # ---- what the machine needs ----

    @property
    def now_ms(self) -> float:
        return self.stand.clock.monotonic_ns() / 1e6

    def choose_lease(self, which: int) -> int:
        """One of the last that were granted, living or not, or one that never was."""
        known = sorted([*self.model.leases, *self.model.ended])
        return known[-1 - which] if which < len(known) else NEVER

    def send_ops(self, ops: list[Op], expected: list[Said]) -> None:
        self.check_answer(self.stand.do(*ops), expected)

    def before_a_crash(self) -> None:
        self.clear_up()

    def clear_up(self) -> None:
        """Until nothing is left under leases that have ended."""
        self.catch_up({})
        rounds = 0
        while self.model.left_over:
            self.stand.clock.advance(SWEEP_S)
            self.catch_up({lease: "expired" for lease in self.model.leases if self.deadlines_ms[lease] <= self.now_ms})
            rounds += 1
            assert rounds < 100, "what lived under an ended lease does not go"

    def catch_up(self, may_end: dict[int, str] | None = None) -> None:
        """Lets the model take over what the world did by itself."""
        if self.stand.clock is not self.clock_seen:  # another life: every lease has its full time again
            self.clock_seen = self.stand.clock
            self.deadlines_ms = {lease: self.now_ms + ttl_ms for lease, ttl_ms in self.model.leases.items()}
            self.consumer = None
        if self.stand.world.revision == self.model.revision:
            return
        rows = [
            Happened(told_by(changes, row), changes.causes[row])
            for changes in self.stand.log.read(self.model.revision + 1, 1 << 40)
            for row in range(len(changes))
            if changes.revisions[row] > self.model.revision and int(changes.types[row]) in self.types
        ]
        self.model.absorb(rows, may_end or {}, SWEEP_ENTRIES_MAX)
        assert self.model.revision == self.stand.world.revision

    def picture(self) -> dict[str, Any]:
        subscription = self.stand.world.subscriptions.find(NAME)
        return {**picture_of_world(self.stand), "leases": sorted(living(self.stand)), "cursor": subscription.cursor}

    def expected_picture(self, model: Any) -> dict[str, Any]:
        return picture_of_life(model)

    def watch_has_ended(self, error: WorldError) -> None:
        """Compacted: the reader takes the state as it is retained, and goes on from there."""
        first = self.stand.log.first_revision
        assert isinstance(error, RevisionCompacted), error
        assert self.through + 1 < first, "nothing that it needed was gone"
        self.through = first - 1
        self.told = [event for event in self.model.events if event.revision < first]
        self.open_watch()

    async def read_consumer(self, consumer: Consumer) -> None:
        """Everything that there is for it now."""
        while True:
            reading = asyncio.get_running_loop().create_task(consumer.next(), name="consume")
            for _ in range(20):
                await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
                return
            step = reading.result()
            if isinstance(step, Assignment):
                assert step.cursor == self.model.cursor
            elif step.changes is not None:
                rows = range(len(step.changes)) if step.rows is None else step.rows
                self.consumed += [told_by(step.changes, row) for row in rows]


FAILING = Write("/", "never there", Code.DELETE_ENTRY, Delete())


def acknowledging(term: int, upto: int) -> tuple[Write, ...]:
    """An effect and the acknowledgement of what led to it."""
    return (
        Write("/", "seen", Code.SET, upto),
        Write("/", "", Code.ACKNOWLEDGE, Acknowledge(NAME, term, upto)),
    )

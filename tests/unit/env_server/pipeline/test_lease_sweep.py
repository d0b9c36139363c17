"""The end of many: bounded steps, held keys, kills in the middle, and a world that answers meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.changes import EventType
from env_server.model.entries import MEMBER
from env_server.model.environments import Aggregate, Declaration, Function
from env_server.model.errors import NotFound
from env_server.model.limits import Limits
from env_server.model.operations import Code, ReadAggregates, RegisterEntry, RegisterEnvironment
from env_server.model.operations import Query as Ask
from env_server.model.spaces import Grid, Proximity, Space
from env_server.model.values import NOTHING
from tests.engine import Op, Stand, add, get, invoke, new_environment, put
from tests.leased import ends, events, grant, granted, hold, join, kept, living, revoke

STORMS = [
    (20, 20_000),
    *[pytest.param(leases, 100_000, marks=pytest.mark.long) for leases in (1, 1000, 100_000)],
]
LIMITS = Limits()


class Desk(Behaviour):
    """Holds a key, or all of it, for a while."""

    kind: ClassVar[str] = "desk"

    @operation(writes=lambda path, key, seconds: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float) -> None:
        await ctx.sleep(seconds)
        ctx.set(key, "held")

    @operation()
    async def hold_all(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)


def join_many(stand: Stand, path: str, lease: int, count: int) -> None:
    for first in range(0, count, 4000):
        stand.done(*[join(path, f"m{number:06}", lease) for number in range(first, min(first + 4000, count))])


def per_revision(stand: Stand) -> Counter[int]:
    return Counter(revision for revision, _, _ in events(stand, EventType.MEMBER_EXPIRED, EventType.ENTRY_DELETED))


def test_no_revision_holds_more_than_a_step_and_others_come_in_between() -> None:
    stand = Stand()
    stand.done(new_environment("/m"), new_environment("/other"))
    lease = granted(stand)
    join_many(stand, "/m", lease, 3000)
    stand.send(revoke(lease))
    written = []
    while living_members(stand):
        stand.clock.advance(LIMITS.lease_sweep_interval_ms / 1000)
        written.append(stand.do(add("/other", "n", 1)).written.revision)
    sizes = per_revision(stand)
    assert sum(sizes.values()) == 3000
    assert max(sizes.values()) <= LIMITS.lease_sweep_entries_max <= 1000
    assert sum(min(sizes) < revision < max(sizes) for revision in written) >= 3000 // LIMITS.lease_sweep_entries_max - 2
    assert stand.value("/other", "n") == len(written)


def test_a_crowd_that_is_told_of_everyone_who_goes_goes_in_smaller_steps() -> None:
    stand = Stand(limits=Limits(move_looks_max=2000))
    stand.done(new_environment("/m", space=Space(Grid(8, 8), (), (Proximity("met", 1.0),))))
    lease, count = granted(stand), 200
    for number in range(count):
        asked = RegisterEntry(MEMBER, None, lease=lease, position=(1.0, 1.0))
        stand.done(Op("/m", f"m{number}", Code.REGISTER_ENTRY, asked))
    stand.send(revoke(lease))
    while living_members(stand):
        stand.clock.advance(LIMITS.lease_sweep_interval_ms / 1000)
    sizes = per_revision(stand)
    assert sum(sizes.values()) == count and len(sizes) >= 10
    parted = [row for row in stand.rows() if row[1] == EventType.PROXIMITY_LEFT]
    assert len(parted) == count * (count - 1)


def living_members(stand: Stand) -> int:
    return stand.world._tree.nodes.by_path["/m"].members


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("leases", "entries"), STORMS)
def test_a_storm_of_expiries_goes_at_a_bounded_rate_while_the_world_answers(leases: int, entries: int) -> None:
    stand = Stand(limits=Limits(leases_max=100_001))
    count = Aggregate("count", Function.COUNT)
    stand.done(new_environment("/m", aggregates=(count,)), new_environment("/other"))
    ids = [outcome.revision for outcome in stand.done(*[grant(60_000)] * leases)]  # type: ignore[union-attr]
    survivor = granted(stand, 60_000)
    share = entries // leases
    for first in range(0, entries, 4000):
        keys = range(first, min(first + 4000, entries))
        stand.done(*[join("/m", f"m{key:06}", ids[key // share]) for key in keys])
    assert living_members(stand) == entries
    stand.done(join("/m", "survivor", survivor))
    stand.clock.advance(59)
    assert kept(stand, survivor).kept == [survivor]
    stand.clock.advance(1 + LIMITS.lease_tick_ms / 1000)
    begun = stand.clock.monotonic_ns()
    durations: list[float] = []
    went: list[int] = []
    while living_members(stand) > 1:
        before = living_members(stand)
        sent = stand.send(put("/other", "k", len(durations)), add("/m2", "n", 1))
        at = time.perf_counter()
        stand.clock.advance(LIMITS.lease_sweep_interval_ms / 1000)
        durations.append(time.perf_counter() - at)
        assert sent.done
        assert isinstance(sent.outcome(1), NotFound)
        assert kept(stand, survivor).kept == [survivor]
        went.append(before - living_members(stand))
    simulated_s = (stand.clock.monotonic_ns() - begun) / 1e9
    steps = (entries + 2 * leases) / LIMITS.lease_sweep_entries_max
    assert simulated_s <= 2 * steps * LIMITS.lease_sweep_interval_ms / 1000 + 1
    assert max(went) <= 2 * LIMITS.lease_sweep_entries_max
    durations.sort()
    assert durations[len(durations) * 99 // 100] < 0.25, "the longest that anybody's write waited, nearly"
    assert len(ends(stand)) == leases
    assert stand.do(Op("/m", "", Code.QUERY, Ask(ReadAggregates()))).outcome().values[0].value == 1  # type: ignore[union-attr]
    assert stand.value("/m", "survivor") is None


def test_a_keep_alive_between_saves_leases_that_are_due_and_have_not_ended() -> None:
    stand = Stand(limits=Limits(lease_sweep_entries_max=10))
    stand.done(new_environment("/m"))
    ids = [granted(stand, 2000) for _ in range(100)]
    stand.done(*[join("/m", f"m{lease}", lease) for lease in ids])
    stand.clock.advance(2.25)
    while len(ends(stand)) < 30:
        stand.clock.advance(0.01)
    alive = [lease for lease in ids if str(lease) not in {key for key, _ in ends(stand)}]
    assert kept(stand, *ids) == (alive, [lease for lease in ids if lease not in alive])
    stand.clock.advance(1.5)
    assert set(living(stand)) == set(alive), "who was told to be kept is"
    assert living_members(stand) == len(alive)


@pytest.mark.parametrize("stop", [False, True])
def test_what_a_kill_left_over_goes_after_the_restart_exactly_once(seed: int, stop: bool) -> None:
    chance = random.Random(seed)
    stand = Stand(limits=Limits(replay_ops_max=2000, lease_sweep_entries_max=70))
    stand.done(new_environment("/m"), new_environment("/gone"))
    leases = [granted(stand, 5000) for _ in range(5)]
    mine = granted(stand, 3_600_000)
    for lease in leases:
        stand.done(*[hold("/m", f"{lease}-{n}", lease, n) for n in range(700)])
        room = RegisterEnvironment(Declaration(lease=lease))
        stand.done(Op(f"/gone/{lease}", "", Code.REGISTER_ENVIRONMENT, room))
    stand.done(*[hold("/m", f"mine-{n}", mine, n) for n in range(50)])
    stand.clock.advance(5.25)
    rounds = 0
    while len(stand.world._tree.nodes.by_path["/m"].entries) > 50 or stand.world._tree.nodes.by_path["/gone"].children:
        for _ in range(chance.randrange(1, 4)):
            stand.clock.advance(0.01)
        if stop and rounds % 2:
            stand.stop()
            stand.open()
        else:
            stand.reopen()
        rounds += 1
        assert rounds < 1000
    assert rounds >= 5, "too quick to have been cut off"
    deleted = Counter(key for _, _, key in events(stand, EventType.ENTRY_DELETED))
    assert set(deleted) == {f"{lease}-{n}" for lease in leases for n in range(700)}
    assert set(deleted.values()) == {1}
    paths = Counter(path for _, path, _ in events(stand, EventType.ENVIRONMENT_DELETED))
    assert paths == {f"/gone/{lease}": 1 for lease in leases}
    assert sorted(key for key, _ in ends(stand)) == sorted(map(str, leases))
    assert stand.world._tree.holdings.leases_with_any() == [mine]
    stand.reopen()
    assert stand.world._tree.holdings.count(mine) == 50


def desk(**declared: object) -> Stand:
    stand = Stand(Desk())
    stand.done(new_environment("/m", kind="desk"))
    return stand


def test_held_keys_go_when_they_are_free_and_hold_up_no_others() -> None:
    stand = desk()
    lease = granted(stand)
    stand.done(*[hold("/m", f"k{n}", lease, n) for n in range(20)])
    stand.send(invoke("/m", "hold", key="k3", seconds=5.0), invoke("/m", "hold", key="k7", seconds=8.0))
    stand.done(revoke(lease))
    stand.clock.advance(1)
    left = set(stand.world._tree.nodes.by_path["/m"].entries)
    assert left == {"k3", "k7"}
    behind = stand.send(put("/m", "k3", "anew"))
    stand.clock.advance(9)
    assert stand.value("/m", "k3") == "anew"
    assert stand.do(get("/m", "k3")).entry.version == 1, "created after it had gone"
    assert behind.done
    assert stand.value("/m", "k7") is NOTHING
    assert stand.world._tree.holdings.leases_with_any() == []


def test_an_environment_that_is_always_busy_is_cleared_in_its_turn() -> None:
    stand = desk()
    lease = granted(stand)
    stand.done(*[hold("/m", f"k{n}", lease, n) for n in range(20)])
    for _ in range(2):
        stand.send(invoke("/m", "hold_all", seconds=1.0))
    stand.done(revoke(lease))
    for _ in range(6):  # it is never free: the next one waits before the last one ends
        stand.clock.advance(0.5)
        stand.send(invoke("/m", "hold_all", seconds=1.0))
        stand.clock.advance(0.5)
    assert stand.world._tree.nodes.by_path["/m"].entries == {}
    assert stand.world._tree.holdings.leases_with_any() == []


def test_an_environment_under_a_lease_waits_for_who_holds_a_key_of_it() -> None:
    stand = Stand(Desk())
    lease = granted(stand)
    declared = Declaration(kind="desk", lease=lease)
    stand.done(
        Op("/m", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(declared)), new_environment("/m/below", kind="desk")
    )
    sent = stand.send(invoke("/m/below", "hold", key="k", seconds=3.0))
    stand.done(revoke(lease))
    stand.clock.advance(1)
    assert "/m" in stand.world._tree.nodes.by_path
    stand.clock.advance(3)
    assert "/m" not in stand.world._tree.nodes.by_path
    assert sent.invoked.changed, "what had begun was not cut off"


def test_parent_and_child_under_one_lease_go_together() -> None:
    stand = Stand()
    lease = granted(stand)
    for path in ("/a", "/a/b", "/a/b/c", "/d"):
        stand.done(Op(path, "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(lease=lease))))
    stand.done(hold("/a/b", "k", lease), revoke(lease))
    stand.clock.advance(1)
    assert sorted(stand.world._tree.nodes.by_path) == ["/"]
    assert len(events(stand, EventType.ENVIRONMENT_DELETED)) == 4
    assert stand.world._tree.holdings.leases_with_any() == []


def test_a_deleted_world_does_nothing_by_itself_any_more() -> None:
    stand = Stand()
    stand.done(new_environment("/m"))
    lease = granted(stand, 2000)
    stand.done(join("/m", "a", lease))
    stand.world.delete()
    rows = len(stand.rows())
    stand.clock.advance(10)
    assert len(stand.rows()) == rows

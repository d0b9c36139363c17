"""The timers of a world by their environments, which take them along, in memory and on the disk."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import lmdb

from env_server.model.changes import EventType, FactKind
from env_server.model.limits import MIB, Limits
from env_server.model.operations import (
    ClockAction,
    Code,
    Delete,
    EnvironmentUpdate,
    Precondition,
    SetTimer,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.offline.contents import State
from env_server.offline.verify import verify
from env_server.storage import layout
from env_server.testing.ops import cancel_timer, control, set_timer
from tests.engine import Op, Stand, drop, new_environment, put
from tests.timelines import MANUAL, fired

NEVER = Precondition(Condition.EXISTS, path="/", key="nothing")


def kept(stand: Stand) -> set[str]:
    """Keys of all facts of timers in the state tables."""
    names = map(layout.split_fact_key, stand.disk.tables[layout.FACTS])
    return {key for kind, key in names if kind == FactKind.TIMER}


def waiting(stand: Stand) -> set[str]:
    """The same of all timers that wait."""
    by_path = stand.world._tree.nodes.by_path
    seen = stand.world.timekeeping
    return {f"{node.number}/{timer.name}" for path, node in by_path.items() for timer in seen.list_timers(path)}


def told(stand: Stand) -> set[str]:
    """The same as the log tells, without a server."""
    state = State()
    for changes in stand.records():
        state.record(changes)
    state.finish()
    return set(state.facts[FactKind.TIMER])


def copied(stand: Stand, directory: Path) -> Path:
    """What is durable, as a world on a real disk."""
    directory.mkdir()
    with lmdb.open(str(directory), map_size=64 * MIB, max_dbs=16) as env, env.begin(write=True) as transaction:
        for name, rows in stand.disk.tables.items():
            database = env.open_db(name.encode(), transaction)
            for key, row in rows.items():
                transaction.put(key, row, db=database)
    return directory


def test_a_deletion_writes_nothing_for_its_timers_and_they_are_let_go_in_slices() -> None:
    stand = Stand()
    stand.done(new_environment("/town", clock=MANUAL), new_environment("/town/mill"))
    stand.done(*(set_timer("/town/mill", f"t{index}", at_ns=1 + index) for index in range(5000)))
    before = len(stand.records())
    number = stand.world._tree.nodes.by_path["/town/mill"].number
    queue = stand.world.timekeeping._clocks.find("/town").timers[number]
    stand.send(drop("/town/mill", ""))
    assert len(queue) == 5000, "nothing is taken apart in the deletion's own step"
    steps = 0
    while stand.world._tree.remains:
        stand.clock.step()
        steps += 1
    assert steps > 3 and not len(queue)
    stand.clock.settle()
    assert [changes.facts for changes in stand.records()[before:]] == [[]]
    stand.done(control("/town", ClockAction.ADVANCE_BY, 9999))
    assert fired(stand) == [] and stand.world.timekeeping.see("/town").timers == 0


def test_a_world_that_is_closed_lets_go_of_its_timers_in_slices() -> None:
    stand = Stand()
    stand.done(new_environment("/town", clock=MANUAL))
    stand.done(*(set_timer("/town", f"t{index}", at_ns=1 + index) for index in range(9000)))
    timeline = stand.world.timekeeping._clocks.find("/town")
    (queue,) = timeline.timers.values()
    stand.stop()
    left = [sum(map(len, queue.containers)) for _ in stand.world.dismantle()]
    assert left[-1] == 0 and max(a - b for a, b in pairwise([18_000, *left])) < 5000


def test_what_is_kept_of_timers_goes_with_their_environments_over_kills_at_any_step(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stand = Stand(limits=Limits(replay_ops_max=16))
    stand.done(new_environment("/town", clock=MANUAL))
    for round_number in range(150):
        path = f"/town/{chance.choice('abc')}"
        name = chance.choice("tuvw")
        ops = {
            "make": [new_environment(path)],
            "clock": [new_environment(path, clock=MANUAL)],
            "set": [set_timer(path, name, at_ns=chance.randrange(100, 200)), put("/", "x", 1)],
            "many": [set_timer(path, f"{name}{index}", at_ns=500) for index in range(8)],
            "cancel": [cancel_timer(path, name)],
            "delete": [drop(path, "")],
            "turn": [drop(path, ""), new_environment(path), set_timer(path, name, at_ns=300), drop(path, "")],
            "fail": [
                Op("/", "", Code.TRANSACT, Transact(writes=(
                    Write(path, "new", Code.SET_TIMER, SetTimer(at_ns=400)),
                    Write(path, "", Code.DELETE_ENVIRONMENT, Delete()),
                    Write("/", "y", Code.SET, 1, (NEVER,)),
                )))
            ],
        }  # fmt: skip
        stand.send(*ops[chance.choice([*ops, "set", "many", "many"])])
        if chance.random() < 0.3:
            for _ in range(chance.randrange(12)):
                stand.clock.step()
            stand.kill()
            assert verify(copied(stand, tmp_path / str(round_number))).problems.told == []
            stand.open()
        else:
            stand.clock.settle()
        assert told(stand) == waiting(stand)
        if chance.random() < 0.1:
            stand.stop()
            expected = kept(stand)
            stand.open()
            assert waiting(stand) == expected, "nothing else is kept"
    assert any(changes.types.count(int(EventType.ENVIRONMENT_DELETED)) for changes in stand.records())
    stand.reopen()
    waits = waiting(stand)
    stand.stop()
    assert kept(stand) == waits


def test_a_failed_deletion_leaves_timers_on_each_of_their_clocks() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), new_environment("/a/b"), set_timer("/a/b", "outer", at_ns=5))
    stand.done(Op("/a/b", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=MANUAL)))
    stand.done(set_timer("/a/b", "inner", at_ns=7))
    writes = (
        Write("/a/b", "inner", Code.SET_TIMER, SetTimer(at_ns=8)),
        Write("/a/b", "", Code.DELETE_ENVIRONMENT, Delete()),
        Write("/", "y", Code.SET, 1, (NEVER,)),
    )
    assert stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).error.reason.name == "PRECONDITION_FAILED"
    assert [timer.name for timer in stand.world.timekeeping.list_timers("/a/b")] == ["inner", "outer"]
    stand.done(control("/a", ClockAction.ADVANCE_BY, 9), control("/a/b", ClockAction.ADVANCE_BY, 7))
    assert sorted(fired(stand)) == [("inner", 7, 0), ("outer", 5, 0)]
    assert not stand.world.timekeeping._clocks.timers._timelines

"""Listeners: each event once in effect, in order, one at a time; what they do wrong; chains; races with others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener, operation
from env_server.behaviours.registry import BehaviourError
from env_server.model.changes import FactKind
from env_server.model.environments import Aggregate, Function
from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Transact, Write
from env_server.storage.memory import MemoryCommitLog
from env_server.testing import BehaviourStand, Stand, behaviour_stand
from tests.engine import Op, add, drop, new_environment, put


class Diary(Behaviour):
    """Writes down what it hears of its environment's keys."""

    kind: ClassVar[str] = "diary"
    heard: ClassVar[list[str]] = []
    running: ClassVar[set[tuple[str, int]]] = set()

    @listener(types=[EventType.ENTRY_SET], key="in.*", writes=lambda path, event: [Target(path, "log")])
    async def write_down(self, ctx: Context, event: Event) -> None:
        place = ctx.path, id(ctx._view)  # the view is that of one life of the world
        assert place not in Diary.running, "one at a time in an environment"
        Diary.running.add(place)
        try:
            Diary.heard.append(event.id)
            word = event.value
            if word == "slow":
                await ctx.sleep(5.0)
            if word == "forever":
                await ctx.sleep(100.0)
            ctx.append("log", {"id": event.id, "key": event.key, "value": word})
            if word == "raise":
                raise RuntimeError("/secret")
            if word == "refuse":
                ctx.refuse("no", "not this")
            if word == "undeclared":
                ctx.set("elsewhere", 1)
            if word == "nothing":
                ctx.staged.clear()
        finally:
            Diary.running.discard(place)

    @operation(writes=lambda path, seconds: [Target(path, "log")])
    async def hold_log(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)
        ctx.append("log", "held")


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    Diary.heard.clear()
    Diary.running.clear()
    with behaviour_stand(Diary) as stand:
        stand.register("/d", kind="diary")
        yield stand


def log_of(stand: BehaviourStand, path: str = "/d") -> list[Any]:
    return [item["value"] if isinstance(item, dict) else item for item in stand.items(path, "log")]


def test_an_event_is_heard_after_it_happened_with_its_cause_and_depth(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", 1)
    (caused,) = stand.events("/d", EventType.ENTRY_APPENDED)
    (told,) = stand.events("/d", EventType.ENTRY_SET)
    assert caused.revision == told.revision + 1
    assert caused.cause == told.id == f"main/{told.revision}.0"
    assert (told.depth, caused.depth) == (0, 1)
    assert stand.items("/d", "log") == [{"id": told.id, "key": "in.a", "value": 1}]


def test_the_position_commits_with_the_effect(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", 1)
    for changes in stand.engine.records():
        appended = EventType.ENTRY_APPENDED in changes.types
        noted = [
            fact for fact in changes.facts if fact.key.endswith("/write_down") and not fact.key.startswith("kind:")
        ]
        assert appended == bool(noted), "effect and position stand in one record"


def test_events_of_a_frame_and_of_a_revision_are_heard_in_order(stand: BehaviourStand) -> None:
    frame = [put("/d", f"in.{number}", number) for number in range(5)]
    transact = Transact(writes=tuple(Write("/d", f"in.t{number}", Code.SET, 10 + number) for number in range(3)))
    stand.engine.done(*frame, Op("/", "", Code.TRANSACT, transact))
    assert log_of(stand) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_other_keys_types_and_places_are_not_heard(stand: BehaviourStand) -> None:
    stand.register("/d/in", kind="basic")
    stand.set("/d/in", "in.x", 1)
    stand.set("/d", "out", 1)
    stand.set("/d", "in.x", 1)
    stand.delete("/d", "in.x")
    assert log_of(stand) == [1]


@pytest.mark.parametrize(
    ("word", "reason"),
    [("raise", "INTERNAL"), ("refuse", "OPERATION_REFUSED"), ("undeclared", "INTERNAL")],
)
def test_one_that_fails_is_rolled_back_told_of_and_goes_on(stand: BehaviourStand, word: str, reason: str) -> None:
    stand.set("/d", "in.a", word)
    stand.set("/d", "in.a", "after")
    assert log_of(stand) == ["after"]
    (failure,) = stand.failures()
    assert (failure.path, failure.key, failure.value["reason"]) == ("/d", "write_down", reason)
    assert failure.cause == failure.value["cause"] == stand.events("/d", EventType.ENTRY_SET)[0].id
    assert "/secret" not in failure.value["message"]
    stand.kill_and_restart()
    assert len(stand.failures()) == 1, "it is not heard again"


def test_one_that_takes_too_long_is_rolled_back(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", "forever")
    stand.set("/d", "in.b", "next")
    stand.advance(29.0)
    assert log_of(stand) == []
    stand.advance(2.0)
    assert log_of(stand) == ["next"]
    assert [one.value["reason"] for one in stand.failures()] == ["DEADLINE"]


def test_nobody_waits_for_a_listener(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", "slow")  # returns, while the listener sleeps
    stand.set("/d", "in.b", "next")
    stand.set("/d", "other", 1)
    assert log_of(stand) == []
    stand.advance(5.0)
    assert log_of(stand) == ["slow", "next"]


def test_a_listener_and_an_operation_on_one_key_take_turns(stand: BehaviourStand) -> None:
    holding = stand.begin("/d", "hold_log", seconds=3.0)
    stand.set("/d", "in.a", "heard")
    assert log_of(stand) == []
    stand.advance(3.0)
    assert holding.done
    assert log_of(stand) == ["held", "heard"]
    stand.set("/d", "in.a", "slow")
    behind = stand.begin("/d", "hold_log", seconds=0.0)
    assert not behind.done, "the listener holds the key while it sleeps"
    stand.advance(5.0)
    assert log_of(stand)[2:] == ["slow", "held"]


def test_an_environment_deleted_while_its_listener_waits_or_runs(stand: BehaviourStand) -> None:
    stand.begin("/d", "hold_log", seconds=3.0)
    stand.set("/d", "in.a", "waits")
    stand.engine.do(drop("/d", ""))
    stand.advance(10.0)
    assert "/d" not in stand.engine.world._tree.nodes.by_path
    assert not stand.failures()
    assert facts_of(stand) == {}
    stand.register("/d", kind="diary")
    stand.set("/d", "in.a", "anew")
    assert log_of(stand) == ["anew"]
    stand.set("/d", "in.a", "slow")
    deletion = stand.engine.do(drop("/d", ""))
    assert not deletion.done, "it waits for the keys of the listener"
    stand.advance(5.0)
    assert deletion.done and log_of(stand) == []
    assert facts_of(stand) == {}


def facts_of(stand: BehaviourStand) -> dict[str, bytes | None]:
    """Positions of single environments as a restart finds them; restarts."""
    engine = stand.engine
    engine.kill()
    log = MemoryCommitLog.open(engine.disk, engine.clock, engine.limits, lambda: "")
    loaded = log.load()
    facts = [*loaded.facts, *(fact for record in loaded.records for fact in record.facts)]
    log.kill()
    engine.open()
    engine.clock.settle()
    found = {fact.key: fact.value for fact in facts if fact.kind is FactKind.LISTENER}
    return {key: value for key, value in found.items() if not key.startswith("kind:") and value is not None}


def test_a_restart_goes_on_where_it_stood(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", "slow")
    stand.set("/d", "in.b", "second")
    stand.kill_and_restart()
    assert log_of(stand) == [], "the first sleeps again: its effect was not there"
    stand.advance(5.0)
    assert log_of(stand) == ["slow", "second"]
    stand.kill_and_restart()
    stand.restart()
    assert log_of(stand) == ["slow", "second"]
    stand.set("/d", "in.c", "third")
    assert log_of(stand) == ["slow", "second", "third"]


def test_a_behaviour_that_is_missing_for_a_while_loses_nothing(stand: BehaviourStand) -> None:
    stand.set("/d", "in.a", 1)
    stand.restart(Other)
    stand.set("/d", "in.b", 2)
    stand.register("/o", kind="other")
    stand.set("/o", "x", 1)
    stand.restart(Diary, Other)
    assert log_of(stand) == [1, 2]


class Other(Behaviour):
    """Another kind."""

    kind = "other"

    @listener(key="x")
    async def count(self, ctx: Context, event: Event) -> None:
        ctx.add("count", 1)


def test_a_listener_installed_later_begins_at_the_head() -> None:
    class Plain(Behaviour):
        kind = "diary"

    with behaviour_stand(Plain) as stand:
        stand.register("/d", kind="diary")
        stand.set("/d", "in.a", "before")
        stand.restart(Diary)
        stand.set("/d", "in.b", "after")
        assert log_of(stand) == ["after"]
        stand.kill_and_restart()
        assert log_of(stand) == ["after"]


def test_an_environment_hears_its_own_registration() -> None:
    class Born(Behaviour):
        kind = "born"

        @listener(types=[EventType.ENVIRONMENT_REGISTERED])
        async def begin(self, ctx: Context, event: Event) -> None:
            ctx.set("born", event.revision)

    with behaviour_stand(Born) as stand:
        stand.register("/b", kind="born")
        assert stand.get("/b", "born") == 2


@pytest.mark.parametrize(
    ("path", "places"),
    [("", ["/e"]), ("a", ["/e/a"]), ("*", ["/e/a", "/e/b"]), ("**", ["/e/a", "/e/b", "/e/b/c"]), ("/o*", ["/o"])],
)
def test_paths_are_relative_to_the_environment(path: str, places: list[str]) -> None:
    class Far(Behaviour):
        kind = "far"

        @listener(types=[EventType.ENTRY_SET], path=path, writes=lambda path, event: [Target(path, "heard")])
        async def hear(self, ctx: Context, event: Event) -> None:
            if event.key != "heard":
                ctx.append("heard", event.path)

    with behaviour_stand(Far) as stand:
        stand.register("/e", kind="far")
        for place in ("/e/a", "/e/b", "/e/b/c", "/o"):
            stand.register(place)
        for place in ("/e", "/e/a", "/e/b", "/e/b/c", "/o"):
            stand.set(place, "k", 1)
        assert stand.items("/e", "heard") == places


def test_names_of_environments_are_no_globs() -> None:
    class Exact(Behaviour):
        kind = "exact"

        @listener(key="k", path="child")
        async def hear(self, ctx: Context, event: Event) -> None:
            ctx.add("heard", 1)

    with behaviour_stand(Exact) as stand:
        for name in ("/a*", "/ab", "/[a]", "/a"):
            stand.register(name, kind="exact")
            stand.register(f"{name}/child")
        stand.set("/ab/child", "k", 1)
        stand.set("/a/child", "k", 1)
        heard = {name: stand.get(name, "heard") for name in ("/a*", "/ab", "/[a]", "/a")}
        assert heard == {"/a*": None, "/ab": 1, "/[a]": None, "/a": 1}


def test_a_bad_glob_is_told_when_the_world_opens() -> None:
    class Bad(Behaviour):
        kind = "bad"

        @listener(path="a//b")
        async def hear(self, ctx: Context, event: Event) -> None: ...

    with pytest.raises(BehaviourError, match="'hear'"):
        Stand(Bad())


class Echo(Behaviour):
    """Writes what it listens to."""

    kind = "echo"

    @listener(types=[EventType.ENTRY_INCREMENTED])
    async def again(self, ctx: Context, event: Event) -> None:
        ctx.add("n", 1)


def test_a_listener_that_writes_what_it_hears_is_cut_at_the_depth() -> None:
    with behaviour_stand(Echo) as stand:
        stand.register("/e", kind="echo")
        stand.add("/e", "n")
        assert stand.get("/e", "n") == 17
        depths = [one.depth for one in stand.events("/e", EventType.ENTRY_INCREMENTED)]
        assert depths == list(range(17))
        (failure,) = stand.failures()
        assert failure.value["reason"] == "LIMIT_EXCEEDED"
        assert "listener_depth_max" in failure.value["message"]
        stand.kill_and_restart()
        assert stand.get("/e", "n") == 17
        stand.add("/e", "n")
        assert stand.get("/e", "n") == 34


def test_a_chain_over_an_aggregate_is_cut_too() -> None:
    class Mean(Behaviour):
        kind = "mean"

        @listener(types=[EventType.AGGREGATE_CHANGED])
        async def again(self, ctx: Context, event: Event) -> None:
            ctx.add("n", 1)

    with behaviour_stand(Mean) as stand:
        stand.engine.done(new_environment("/m", kind="mean", aggregates=(Aggregate("sum", Function.SUM),)))
        stand.engine.do(add("/m", "n", 1))
        assert stand.get("/m", "n") == 17
        assert len(stand.failures()) == 1


def test_failures_are_heard_only_by_name_and_make_no_endless_chain() -> None:
    class Nurse(Behaviour):
        kind = "nurse"

        @listener(types=[EventType.LISTENER_FAILED])
        async def care(self, ctx: Context, event: Event) -> None:
            raise RuntimeError

        @listener(key="x")
        async def fail(self, ctx: Context, event: Event) -> None:
            raise RuntimeError

    with behaviour_stand(Nurse) as stand:
        stand.register("/n", kind="nurse")
        stand.set("/n", "x", 1)
        names = [one.key for one in stand.failures()]
        assert names == ["fail"] + ["care"] * 15
        assert stand.failures()[-1].depth == 16


def test_a_thousand_environments_hear_each_their_own() -> None:
    with behaviour_stand(Diary) as stand:
        engine = stand.engine
        names = [f"/d{number}" for number in range(1000)]
        engine.done(*(new_environment(name, kind="diary") for name in names))
        engine.done(*(put(name, "in.a", name) for name in names))
        engine.done(*(put(name, "in.b", "2") for name in names[::7]))
        stand.kill_and_restart()
        for number, name in enumerate(names):
            assert log_of(stand, name) == [name, *(["2"] if number % 7 == 0 else [])]


def test_more_events_than_an_ear_holds_are_found_again_in_ring_and_log() -> None:
    for limits in (Limits(), Limits(ring_bytes_max=1)):
        with behaviour_stand(Diary, limits=limits) as stand:
            stand.register("/d", kind="diary")
            stand.set("/d", "in.x", "slow")
            for first in range(0, 600, 30):
                stand.engine.done(*(put("/d", "in.a", number) for number in range(first, first + 30)))
            stand.advance(5.0)
            assert log_of(stand) == ["slow", *range(600)]
            assert not stand.failures()


def test_a_restart_reads_the_log_once_for_all() -> None:
    with behaviour_stand(Diary) as stand:
        for number in range(20):
            stand.register(f"/d{number}", kind="diary")
        stand.restart(Other)
        for number in range(200):
            stand.engine.done(put(f"/d{number % 20}", "in.a", number))
        stand.engine.stop()
        stand.engine.install(Diary())
        stand.engine.open()
        read, reads = stand.engine.log.read, []
        stand.engine.log.read = lambda *asked: reads.append(asked) or read(*asked)  # type: ignore[method-assign,func-returns-value]
        stand.engine.clock.settle()
        assert len(reads) <= 2
        for number in range(20):
            assert log_of(stand, f"/d{number}") == list(range(number, 200, 20))


def test_what_was_compacted_before_it_was_heard_is_told(stand: BehaviourStand) -> None:
    stand.restart(Other)
    stand.set("/d", "in.a", "lost")
    stand.set("/d", "quiet", 1)
    done: list[int] = []
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    first = done[0]
    stand.restart(Diary)
    (failure,) = stand.failures()
    assert failure.value["reason"] == "REVISION_COMPACTED"
    assert failure.value["from_revision"] <= first - 1 == failure.value["to_revision"]
    stand.set("/d", "in.a", "heard")
    assert log_of(stand) == ["heard"]
    stand.kill_and_restart()
    assert len(stand.failures()) == 1 and log_of(stand) == ["heard"]


def test_idle_listeners_do_not_hold_the_log_and_late_ones_do(stand: BehaviourStand) -> None:
    for _ in range(50):
        stand.set("/d", "quiet", 1)
    done: list[int] = []
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done and done[0] > 50
    stand.set("/d", "in.a", "slow")
    slow = stand.revision
    for _ in range(50):
        stand.set("/d", "quiet", 1)
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done[1] <= slow, "the event is still needed"
    stand.advance(5.0)
    stand.engine.world.compact(0, done.append)
    stand.engine.clock.settle()
    assert done[2] > slow + 50
    stand.kill_and_restart()
    assert not stand.failures() and log_of(stand) == ["slow"]


def test_one_too_far_behind_skips_and_says_so() -> None:
    with behaviour_stand(Diary, limits=Limits(listener_lag_revisions_max=100)) as stand:
        stand.register("/d", kind="diary")
        stand.set("/d", "in.a", "slow")
        for number in range(200):
            stand.set("/d", "in.b", number)
        stand.advance(5.0)
        (failure,) = stand.failures()
        assert "listener_lag_revisions_max" in failure.value["message"]
        stand.set("/d", "in.c", "after")
        assert log_of(stand)[0] == "slow" and log_of(stand)[-1] == "after"


def test_full_queues_and_full_storage_put_it_off(stand: BehaviourStand) -> None:
    admission = stand.engine.world._admission
    stand.engine.send(put("/d", "in.a", 1))  # admitted; what comes after it is not
    admission.refusal = lambda ops, size: Exhausted(Reason.STORAGE_QUOTA, "full", retry_delay_ms=1000)  # type: ignore[method-assign]
    stand.advance(3.0)
    assert stand.events("/d", EventType.ENTRY_SET)
    assert not stand.failures() and not stand.events("/d", EventType.ENTRY_APPENDED)
    del admission.refusal
    stand.advance(10.0)
    assert log_of(stand) == [1]


def test_listeners_leave_clients_half_of_the_queue() -> None:
    limits = Limits(queue_ops_max=8, listeners_running_max=100)
    with behaviour_stand(Diary, limits=limits) as stand:
        for number in range(20):
            stand.register(f"/d{number}", kind="diary")
            stand.begin(f"/d{number}", "hold_log", seconds=10.0)
        for number in range(20):
            stand.set(f"/d{number}", "in.a", number)
        last = stand.begin("/d0", "hold_log", seconds=0.0)
        stand.advance(30.0)
        assert last.done and last.result is None
        assert [log_of(stand, f"/d{number}")[-1] for number in range(1, 20)] == list(range(1, 20))


def test_no_effect_takes_no_revision(stand: BehaviourStand) -> None:
    before = stand.revision
    stand.set("/d", "in.a", "nothing")
    assert stand.revision == before + 1
    heard = len(Diary.heard)
    stand.restart()
    assert len(Diary.heard) == heard, "a clean stop notes it"


def test_a_listener_may_not_call() -> None:
    class Caller(Behaviour):
        kind = "caller"

        @listener(key="x", writes=lambda path, event: [])
        async def hear(self, ctx: Context, event: Event) -> None:
            try:
                await ctx.call("/c", "op")
            except WorldError as error:
                ctx.emit("refused", {"reason": error.reason.name})

        @operation()
        async def op(self, ctx: Context) -> None: ...

    with behaviour_stand(Caller) as stand:
        stand.register("/c", kind="caller")
        stand.set("/c", "x", 1)
        (event,) = stand.events("/c", EventType.BEHAVIOUR)
        assert event.value == {"reason": "NESTED_INVOKE"}

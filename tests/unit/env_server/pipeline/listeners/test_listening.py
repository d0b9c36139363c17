"""Listeners: each event once in effect, in order, one at a time; what they do wrong; chains; races with others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener
from env_server.behaviours.registry import BehaviourError
from env_server.model.changes import FactKind
from env_server.model.environments import Aggregate, Function
from env_server.model.operations import Code, Transact, Write
from env_server.storage.memory import MemoryCommitLog
from env_server.testing import BehaviourStand, Stand, behaviour_stand
from tests.engine import Op, add, drop, invoke, new_environment, put
from tests.unit.env_server.pipeline.listeners.listening_kinds import Diary, Other, log_of


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    Diary.heard.clear()
    Diary.running.clear()
    with behaviour_stand(Diary) as stand:
        stand.register("/d", kind="diary")
        yield stand


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


def test_what_could_never_be_run_is_refused_at_the_start() -> None:
    class Blocking(Behaviour):
        kind = "blocking"

        @listener(key="x")  # type: ignore[type-var]
        def hear(self, ctx: Context, event: Event) -> None: ...

    class Deaf(Behaviour):
        kind = "deaf"

        @listener(key="x")
        async def hear(self, ctx: Context) -> None: ...

    for behaviour, problem in ((Blocking(), "async def"), (Deaf(), r"\(self, ctx, event\)")):
        with pytest.raises(BehaviourError, match=problem):
            Stand(behaviour)


def test_each_event_is_heard_once_however_it_came_about(stand: BehaviourStand) -> None:
    write = Write("/d", "in.k", Code.SET, "w")
    ways = {
        "call": [put("/d", "in.k", 1)],
        "producer": [put("/d", "in.k", 1, producer="p", seq=1)],
        "frame": [put("/d", "in.k", 1), put("/d", "in.k", 2)],
        "transaction": [Op("/", "", Code.TRANSACT, Transact(writes=(write, write)))],
        "beside an operation": [invoke("/d", "hold_log", write, seconds=0.0)],
        "behind an operation": [invoke("/d", "hold_log", seconds=0.0), put("/d", "in.k", 1)],
    }
    for number, (way, ops) in enumerate(ways.items()):
        before = len(stand.items("/d", "log"))
        sent = stand.engine.do(*ops, client_id="c", seq=number + 1)
        stand.engine.resend(sent)  # what is asked twice is done once, and heard once
        stand.engine.clock.settle()
        sets = [one.id for one in stand.events("/d", EventType.ENTRY_SET)]
        heard = [item["id"] for item in stand.items("/d", "log")[before:] if isinstance(item, dict)]
        assert heard == sets[len(sets) - len(heard) :] and heard, way
        assert sorted(set(Diary.heard)) == sorted(Diary.heard) == sorted(sets), way

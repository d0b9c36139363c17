"""Operations that call one another: in their caller's slot, never while they hold keys, never in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from env_server.behaviours import Behaviour, Context, EventType, Target, operation
from env_server.model.errors import DeadlineExceeded, NotFound, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Write
from env_server.testing import BehaviourStand, behaviour_stand
from tests.engine import invoke


def nothing(own_path: str, /, **arguments: Any) -> list[Target]:
    return []


class Caller(Behaviour):
    """Calls without keys, and what is called."""

    kind: ClassVar[str] = "caller"
    concurrency_max: ClassVar[int] = 1

    @operation(writes=nothing)
    async def twice(self, ctx: Context, path: str, seconds: float = 0.0) -> list[int]:
        first = await ctx.call(path, "count", seconds=seconds)
        ctx.emit("between", {"seen": ctx.get("n", path)})
        return [first, await ctx.call(path, "count", seconds=seconds)]

    @operation(writes=lambda path, seconds=0.0: [Target(path, "n")], timeout_s=20.0)
    async def count(self, ctx: Context, seconds: float = 0.0) -> int:
        await ctx.sleep(seconds)
        ctx.add("n", 1)
        return (ctx.get("n") or 0) + 1

    @operation(writes=nothing)
    async def relay(self, ctx: Context, path: str, back: str, hops: int) -> int:
        if hops == 0:
            return await ctx.call(path, "count")
        return 1 + await ctx.call(path, "relay", path=back, back=path, hops=hops - 1)

    @operation(writes=lambda path: [Target(path, "n")])
    async def held(self, ctx: Context) -> Any:
        return await ctx.call(ctx.path, "count")

    @operation()
    async def exclusive(self, ctx: Context) -> Any:
        return await ctx.call("/other", "count")

    @operation(writes=nothing)
    async def catch(self, ctx: Context, path: str, operation: str) -> str:
        try:
            await ctx.call(path, operation)
        except WorldError as error:
            return error.reason.name
        return "done"

    @operation(writes=nothing, timeout_s=5.0)
    async def brief(self, ctx: Context, path: str, seconds: float) -> int:
        return await ctx.call(path, "count", seconds=seconds)

    @operation()
    async def defect(self, ctx: Context) -> None:
        raise RuntimeError("/secret")

    @operation(writes=nothing)
    async def many(self, ctx: Context, path: str, times: int) -> int:
        last = 0
        for _ in range(times):
            last = await ctx.call(path, "count")
        return last

    @operation(writes=nothing)
    async def badly(self, ctx: Context) -> None:
        await ctx.call("/a", "count", seconds={1, 2})

    @operation(writes=lambda path, seconds: [Target(path, "seen")])
    async def look_around(self, ctx: Context, seconds: float) -> list[Any]:
        ctx.set("seen", 1)
        before = [ctx.get("seen"), ctx.get("x", "/b")]
        await ctx.sleep(seconds)
        return [*before, ctx.get("seen"), ctx.get("x", "/b")]


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(Caller, limits=Limits(call_depth_max=4)) as stand:
        for path in ("/a", "/b", "/c"):
            stand.register(path, kind="caller")
        yield stand


def test_a_call_has_a_revision_of_its_own_and_its_result_comes_back(stand: BehaviourStand) -> None:
    assert stand.invoke("/a", "twice", path="/b") == [1, 2]
    counted = stand.events("/b", EventType.ENTRY_INCREMENTED)
    (between,) = stand.events("/a", EventType.BEHAVIOUR)
    assert [one.revision for one in (*counted, between)] == [5, 6, 7]
    assert between.value == {"seen": 1}, "the caller sees what the first call did"


def test_one_that_holds_keys_may_not_call(stand: BehaviourStand) -> None:
    for name in ("held", "exclusive"):
        with pytest.raises(WorldError) as caught:
            stand.invoke("/a", name)
        assert caught.value.reason is Reason.NESTED_INVOKE
    assert stand.get("/a", "n") is None


def test_companion_writes_are_keys_too(stand: BehaviourStand) -> None:
    sent = stand.engine.do(invoke("/a", "twice", Write("/c", "x", Code.SET, 1), path="/b"))
    assert sent.error.reason is Reason.NESTED_INVOKE
    assert stand.get("/c", "x") is None


def test_in_a_circle_at_capacity_nothing_hangs(stand: BehaviourStand) -> None:
    """Every environment has one slot: A calls B calls A, while B calls A calls B."""
    both = [
        stand.begin("/a", "relay", path="/b", back="/a", hops=2),
        stand.begin("/b", "relay", path="/a", back="/b", hops=2),
    ]
    assert [one.result for one in both] == [3, 3]
    assert stand.get("/a", "n") == stand.get("/b", "n") == 1


def test_a_circle_of_calls_ends_at_the_depth(stand: BehaviourStand) -> None:
    with pytest.raises(WorldError, match="call_depth_max"):
        stand.invoke("/a", "relay", path="/b", back="/a", hops=100)
    assert stand.invoke("/a", "relay", path="/b", back="/a", hops=3) == 4


def test_a_call_waits_for_the_keys_of_the_other(stand: BehaviourStand) -> None:
    holder = stand.begin("/b", "count", seconds=3.0)
    calling = stand.begin("/a", "twice", path="/b")
    assert not calling.done
    stand.advance(3.0)
    assert holder.result == 1 and calling.result == [2, 3]


def test_the_outer_deadline_ends_the_inner_one(stand: BehaviourStand) -> None:
    calling = stand.begin("/a", "brief", path="/b", seconds=10.0)
    waiting = stand.begin("/b", "count")
    stand.advance(5.0)
    with pytest.raises(DeadlineExceeded):
        _ = calling.result
    assert waiting.result == 1, "the key is free, and nothing was counted"
    stand.advance(20.0)
    assert stand.get("/b", "n") == 1


def test_the_outer_deadline_ends_the_inner_ones_wait(stand: BehaviourStand) -> None:
    holder = stand.begin("/b", "count", seconds=10.0)
    calling = stand.begin("/a", "brief", path="/b", seconds=0.0)
    stand.advance(6.0)
    with pytest.raises(DeadlineExceeded):
        _ = calling.result
    stand.advance(10.0)
    assert holder.result == 1 and stand.get("/b", "n") == 1


def test_the_inner_deadline_reaches_the_caller(stand: BehaviourStand) -> None:
    calling = stand.begin("/a", "twice", path="/b", seconds=25.0)
    stand.advance(21.0)
    with pytest.raises(DeadlineExceeded):
        _ = calling.result


def test_errors_of_the_called_one_can_be_caught(stand: BehaviourStand) -> None:
    assert stand.invoke("/a", "catch", path="/b", operation="defect") == "INTERNAL"
    assert stand.invoke("/a", "catch", path="/b", operation="missing") == "OPERATION_NOT_FOUND"
    assert stand.invoke("/a", "catch", path="/nowhere", operation="x") == "ENVIRONMENT_NOT_FOUND"
    assert stand.invoke("/a", "catch", path="no path", operation="x") == "INVALID_PATH"
    assert stand.invoke("/a", "catch", path="/b", operation="held") == "NESTED_INVOKE"
    with pytest.raises(NotFound):
        stand.invoke("/a", "twice", path="/nowhere")
    with pytest.raises(WorldError) as caught:
        stand.invoke("/a", "badly")
    assert caught.value.reason is Reason.INTERNAL


def test_a_chain_of_calls_is_no_chain_of_stack_frames(stand: BehaviourStand) -> None:
    assert stand.invoke("/a", "many", path="/b", times=5000) == 5000


def test_actor_and_cause_are_those_of_the_caller(stand: BehaviourStand) -> None:
    stand.engine.do(invoke("/a", "twice", beside={"actor": "ada", "producer": "p", "seq": 1}, path="/b"))
    assert {one.actor for one in stand.events("/b", EventType.ENTRY_INCREMENTED)} == {"ada"}
    stand.kill_and_restart()
    again = stand.engine.do(invoke("/a", "twice", beside={"actor": "ada", "producer": "p", "seq": 1}, path="/b"))
    assert again.is_duplicate() and stand.get("/b", "n") == 2


def test_it_reads_anything_as_it_is_now_and_never_what_it_staged(stand: BehaviourStand) -> None:
    stand.set("/b", "x", "before")
    looking = stand.begin("/a", "look_around", seconds=1.0)
    stand.set("/b", "x", "after")
    stand.advance(1.0)
    assert looking.result == [None, "before", None, "after"]
    assert stand.get("/a", "seen") == 1

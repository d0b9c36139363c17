"""How many operations of an environment run at a time, as its own config says."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.errors import Reason
from env_server.model.operations import Code, EnvironmentUpdate
from env_server.model.values import Json
from tests.engine import Op, Sent, Stand, invoke, new_environment


class Desk(Behaviour):
    """Operations that take their time."""

    kind: ClassVar[str] = "desk"
    concurrency_max: ClassVar[int] = 0

    @operation(writes=lambda path, key, seconds=0.0: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float = 0.0) -> None:
        await ctx.sleep(seconds)


def narrowed(maximum: object) -> dict[str, Any]:
    return {"kind": "desk", "config": Json.of({"max_concurrency": maximum, "other": 1})}


def merge_config(path: str, **config: Any) -> Op:
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(merge_config=Json.of(config)))


def call_many(stand: Stand, path: str, count: int) -> list[Sent]:
    return [stand.do(invoke(path, "hold", key=f"k{number}", seconds=1)) for number in range(count)]


def count_done(calls: list[Sent]) -> int:
    return sum(sent.done for sent in calls)


def test_max_concurrency_of_an_environments_config_counts_for_it_alone_and_over_a_restart() -> None:
    class Narrow(Desk):
        kind: ClassVar[str] = "narrow"
        concurrency_max: ClassVar[int] = 1

    few = Stand(Desk(), Narrow())
    few.done(
        new_environment("/two", **narrowed(2)),
        new_environment("/many", kind="desk"),
        new_environment("/wide", **(narrowed(3) | {"kind": "narrow"})),
        new_environment("/basic", config=Json.of({"max_concurrency": "what it likes"})),
    )
    for _ in range(2):
        calls = {path: call_many(few, path, 4) for path in ("/two", "/many", "/wide")}
        few.clock.advance(1)
        assert {path: count_done(sent) for path, sent in calls.items()} == {"/two": 2, "/many": 4, "/wide": 3}
        few.clock.advance(1)
        assert all(count_done(sent) == 4 for sent in calls.values())
        few.reopen()


def test_max_concurrency_follows_an_update_also_for_those_that_wait() -> None:
    few = Stand(Desk())
    few.done(new_environment("/d", **narrowed(1)))
    calls = call_many(few, "/d", 5)
    assert few.do(merge_config("/d", max_concurrency=3)).done
    few.clock.advance(1)
    assert count_done(calls) == 1
    few.clock.advance(1)
    assert count_done(calls) == 2, "one slot was given back, and one taken"
    more = call_many(few, "/d", 1)
    assert few.do(merge_config("/d", max_concurrency=None)).done
    few.clock.advance(4)
    assert count_done(calls + more) == 6


@pytest.mark.parametrize("said", [0, -1, 1.5, True, "3", [], {}])
def test_a_max_concurrency_that_cannot_be_meant_is_refused(said: object) -> None:
    few = Stand(Desk())
    error = few.do(new_environment("/d", **narrowed(said))).error
    assert (error.reason, error.violations[0][0]) == (Reason.INVALID_VALUE, "config.max_concurrency")
    few.done(new_environment("/d", **narrowed(2)))
    assert few.do(merge_config("/d", max_concurrency=said)).error.reason is Reason.INVALID_VALUE
    assert few.do(merge_config("/d", other=said)).done
    calls = call_many(few, "/d", 3)
    few.clock.advance(1)
    assert count_done(calls) == 2

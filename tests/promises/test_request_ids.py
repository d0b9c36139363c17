"""A bare UUID: asked twice, done once; over restarts, in flight, for every verb; another body is refused."""

from __future__ import annotations

from typing import Any

from env_server.behaviours.behaviour import Behaviour, operation
from env_server.behaviours.context import Context
from env_server.model.errors import Exhausted, InvalidRequest, Reason
from env_server.model.frames import Frame, Invoked, Written
from env_server.model.limits import Limits
from env_server.model.operations import Code, Transact, Write
from env_server.rpc.decode.request_ids import name_request
from tests.engine import Op, Sent, Stand, add, invoke, make_frame, new_environment, put

FIRST = "00000000-0000-4000-8000-000000000001"
SECOND = "00000000-0000-4000-8000-000000000002"


class Slow(Behaviour):
    """Counts after a while."""

    kind = "slow"

    @operation()
    async def count(self, ctx: Context, wait_s: float = 1.0) -> int:
        await ctx.sleep(wait_s)
        total = int(ctx.get("total") or 0) + 1
        ctx.set("total", total)
        return total


def ask(stand: Stand, request_id: str, op: Op, settle: bool = True) -> Sent:
    frame: Frame = make_frame([op])
    name_request(frame, request_id)
    sent = stand.resend(Sent(frame))
    if settle:
        stand.clock.settle()
    return sent


def stand_with_rooms(limits: Limits | None = None) -> Stand:
    stand = Stand(Slow(), limits=limits)
    stand.done(new_environment("/w"), new_environment("/slow", kind="slow"))
    return stand


def test_every_verb_is_done_once_and_told_again_over_restarts() -> None:
    asked: dict[str, Op] = {
        f"00000000-0000-4000-8000-00000000001{index}": op
        for index, op in enumerate(
            [
                put("/w", "a", 1.5),
                add("/w", "n", 2),
                Op("/w", "s", Code.APPEND, "item"),
                new_environment("/w/child"),
                Op(
                    "/", "", Code.TRANSACT, Transact((), (Write("/w", "t", Code.ADD, 1), Write("/w", "u", Code.SET, 1)))
                ),
                invoke("/slow", "count", wait_s=0.0),
                Op("/absent", "k", Code.SET, 1),  # fails, and that is its outcome
            ]
        )
    }
    stand = stand_with_rooms()
    first: dict[str, Any] = {name: ask(stand, name, op).outcome() for name, op in asked.items()}
    revision = stand.world.revision
    for restart in (False, True, True):
        if restart:
            stand.reopen()
        for name, op in asked.items():
            again = ask(stand, name, op)
            assert again.is_duplicate()
            assert str(again.outcome()) == str(first[name])
        assert stand.world.revision == revision
    stand.stop()
    stand.open()
    assert ask(stand, *next(iter(asked.items()))).is_duplicate()
    assert stand.value("/w", "n") == 2


def test_another_request_under_the_same_id_is_refused_and_changes_nothing() -> None:
    stand = stand_with_rooms()
    ask(stand, FIRST, put("/w", "a", 1))
    for op in (put("/w", "a", 2), put("/w", "b", 1), put("/w", "a", 1.0), add("/w", "c", 1)):
        error = ask(stand, FIRST, op).error
        assert isinstance(error, InvalidRequest) and error.reason is Reason.REQUEST_ID_REUSED
    stand.reopen()
    assert ask(stand, FIRST, put("/w", "a", 2)).error.reason is Reason.REQUEST_ID_REUSED
    assert stand.value("/w", "a") == 1


def test_a_duplicate_in_flight_joins_the_first() -> None:
    stand = stand_with_rooms()
    first = ask(stand, FIRST, invoke("/slow", "count"))
    second = ask(stand, FIRST, invoke("/slow", "count"))
    other = ask(stand, FIRST, invoke("/slow", "count", wait_s=2.0))
    assert other.error.reason is Reason.REQUEST_ID_REUSED
    assert not (first.done or second.done)
    stand.clock.advance(1.0)
    assert (first.outcome(), second.outcome(), second.is_duplicate()) == (first.outcome(), first.outcome(), True)
    assert isinstance(first.outcome(), Invoked)
    assert stand.value("/slow", "total") == 1


def test_what_passes_by_itself_may_be_asked_again() -> None:
    stand = stand_with_rooms(Limits(queue_ops_max=1))
    ask(stand, SECOND, invoke("/slow", "count"))
    stand.send(put("/slow", "x", 1))  # the one that may wait
    assert isinstance(ask(stand, FIRST, put("/slow", "y", 1)).error, Exhausted)
    stand.clock.advance(1.0)
    sent = ask(stand, FIRST, put("/slow", "y", 1))
    assert isinstance(sent.outcome(), Written) and not sent.is_duplicate()


def test_the_event_names_the_request() -> None:
    stand = stand_with_rooms()
    ask(stand, FIRST, put("/w", "a", 1))
    assert stand.records()[-1].producers[-1] == f"request/{FIRST}"

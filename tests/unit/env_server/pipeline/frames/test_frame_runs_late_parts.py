"""A frame whose ops end late: what ends together is one part, what is logged grows with what has ended."""

from __future__ import annotations

from typing import ClassVar

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.frames import Invoked
from tests.engine import Stand, invoke, new_environment

OPS = 200


class Sleeper(Behaviour):
    """Operations that end when they are told."""

    kind: ClassVar[str] = "sleeper"

    @operation(writes=lambda path, key, seconds: [Target(path, key)])
    async def nap(self, ctx: Context, key: str, seconds: float) -> str:
        """Sleeps, then counts."""
        await ctx.sleep(seconds)
        ctx.add(key, 1)
        return key


def naps(apart_s: float) -> list:
    return [invoke("/s", "nap", key=f"k{number}", seconds=1 + number * apart_s) for number in range(OPS)]


def stand_with_naps() -> Stand:
    stand = Stand(Sleeper())
    stand.done(new_environment("/s", kind="sleeper"))
    return stand


def test_ops_that_end_together_are_told_in_one_part() -> None:
    stand = stand_with_naps()
    sent = stand.do(*naps(apart_s=0), client_id="c", seq=1)
    assert len(sent.parts[0].pending) == OPS
    stand.clock.advance(1)
    assert len(sent.parts) <= 4, "one part a commit group, not one an op"
    assert {type(sent.outcome(index)) for index in range(OPS)} == {Invoked}


def test_the_log_grows_with_what_has_ended_and_not_with_its_square() -> None:
    stand = stand_with_naps()
    stand.do(*naps(apart_s=0.125), client_id="c", seq=1)
    stand.clock.advance(0.9)
    sizes = []
    for _ in range(OPS):
        before = sum(record.size_bytes for record in stand.records())
        stand.clock.advance(0.125)
        sizes.append(sum(record.size_bytes for record in stand.records()) - before)
    assert max(sizes[-20:]) < 2 * max(sizes[:20]), f"late parts cost more and more: {sizes[:3]} ... {sizes[-3:]}"


def test_a_crash_between_late_ends_loses_none_and_doubles_none() -> None:
    stand = stand_with_naps()
    sent = stand.do(*naps(apart_s=0.125), client_id="c", seq=1)
    stand.clock.advance(1 + (OPS // 2 - 0.5) * 0.125)
    told = {listed.index for part in sent.parts for listed in part.outcomes}
    assert len(told) == OPS // 2
    first = {index: sent.outcome(index) for index in told}
    stand.reopen()
    again = stand.resend(sent)
    stand.clock.settle()
    stand.clock.advance(1 + OPS * 0.125)
    assert again.done
    assert {index: again.outcome(index) for index in told} == first
    assert [stand.value("/s", f"k{number}") for number in range(OPS)] == [1] * OPS
    stand.reopen()
    once_more = stand.resend(sent)
    stand.clock.settle()
    assert [once_more.outcome(index) for index in range(OPS)] == [again.outcome(index) for index in range(OPS)]
    assert [stand.value("/s", f"k{number}") for number in range(OPS)] == [1] * OPS

"""Turns that have sent all that they do, and wait for the world's answer."""

from __future__ import annotations

import asyncio

from agent_runtime.model.wakes import NEVER_NS
from agent_runtime.turns.sent_turns import SentTurns


async def test_a_firing_waits_for_those_who_may_be_due_again_and_for_no_others() -> None:
    told: list[int] = []
    sent = SentTurns(lambda: told.append(len(sent)))
    assert (len(sent), sent.first_ns) == (0, NEVER_NS)
    soon, never, later = sent.add([70, 60]), sent.add([NEVER_NS]), sent.add([90])
    assert told == [2, 3, 4] and sent.first_ns == 60
    await sent.wait_due(59)
    waiting = asyncio.ensure_future(sent.wait_due(60))
    for number in (never, later):
        sent.settle(number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    sent.settle(soon)
    await asyncio.wait_for(waiting, 10)
    assert (len(sent), sent.first_ns) == (0, NEVER_NS)

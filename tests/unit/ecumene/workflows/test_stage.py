"""A stage whose surroundings answer when they like."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ecumene.client import Writes
from ecumene.workflows.callers import Caller
from ecumene.workflows.cells import FinishedCall
from ecumene.workflows.limits import FlowLimits, StageLimits
from ecumene.workflows.messages import Message, read_message, read_outcome
from ecumene.workflows.stage import CONFLICT_WAIT_MS_MAX, Stage, bound_wait_ms

from tests.workflow_actors import Counter


class Port:
    """Keeps what is committed with effects until it is told what came of it."""

    def __init__(self) -> None:
        self.world: Any = self
        self.held: list[Callable[[Exception | None], None]] = []
        self.told: dict[int, str] = {}
        self.recorded: list[FinishedCall] = []
        self._caller = Caller("f", "7", FlowLimits(), asyncio.get_running_loop())

    def writes(self) -> Writes:
        return Writes()

    def need(self, message: Message, deliver: Callable[[int, str], None]) -> None:
        raise AssertionError("nothing is needed")

    def find_caller(self, message: Message) -> Caller:
        return self._caller

    def commit(self, message: Message, text: str, effects: Any, then: Callable[[Exception | None], None]) -> None:
        self.told[message.number] = text
        if effects is None:
            then(None)
        else:
            self.held.append(then)

    def record(self, call: FinishedCall) -> None:
        self.recorded.append(call)


@pytest.fixture
async def parts() -> AsyncIterator[tuple[Stage, Port]]:
    port = Port()
    stage = Stage("ann", port, StageLimits(), random.Random(1), lambda name: Counter)
    yield stage, port
    await stage.close()


def make_call(number: int, do: str, method: str, *args: Any) -> Message:
    document = {"call": number, "do": do, "flow": "f", "caller": "7", "lane": "", "actor": "f.7.1", "class": "m:C"}
    return read_message(json.dumps({**document, "method": method, "in": [list(args)]}))


async def wait_for(is_met: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not is_met():  # noqa: ASYNC110 - the port tells of nothing
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("conflict", [None, ValueError("not taken")])
async def test_a_call_whose_effects_are_on_their_way_when_its_actor_goes_ends_once(
    parts: tuple[Stage, Port], conflict: Exception | None
) -> None:
    stage, port = parts
    stage.take(make_call(1, "make", ""))
    stage.take(make_call(2, "call", "increment", "/p", "n"))
    stage.take(make_call(3, "call", "increment", "/p", "n"))
    await wait_for(lambda: port.held)
    stage.drop("f")
    await asyncio.sleep(0.01)
    assert stage.waiting == 1 and stage.actors == 0
    port.held.pop()(conflict)
    assert await stage.wait_idle(10)
    assert [call.number for call in port.recorded] == [1, 3, 2]
    second = port.recorded[-1]
    assert (second.effects, second.failure is None) == ((1, True) if conflict is None else (0, False))
    failure = read_outcome(port.told[3]).failure
    assert failure is not None and failure.code == "FLOW_LOST"
    assert [call.turn for call in port.recorded] == [1, 3, 2]


def test_whoever_loses_again_and_again_comes_back_later_and_later() -> None:
    waits = [bound_wait_ms(attempts) for attempts in range(1, 10_001)]
    assert waits[:4] == [20, 40, 80, 160]
    assert waits == sorted(waits) and waits[-1] == CONFLICT_WAIT_MS_MAX

"""Local flows: the stage in this process, no server. Values are copied as if they had travelled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ecumene.workflows.callers import Caller
from ecumene.workflows.calls import Call
from ecumene.workflows.cells import FinishedCall
from ecumene.workflows.errors import Failure, ResultLostError
from ecumene.workflows.limits import FlowLimits, StageLimits
from ecumene.workflows.messages import Message, read_message, write_failure
from ecumene.workflows.stage import Stage
from ecumene.workflows.targets import HostInfo

if TYPE_CHECKING:
    from ecumene.client import World, Writes

LOCAL = "local"


class LocalFlow:
    """Link and port in one: what is sent is taken, what is committed is the outcome."""

    world: World | None = None

    def __init__(self, name: str, limits: FlowLimits, stage_limits: StageLimits, chance: random.Random) -> None:
        self.caller = Caller(name, LOCAL, limits, asyncio.get_running_loop())
        self.stage = Stage(LOCAL, self, stage_limits, chance, self.caller.known.find_class)
        self.caller.placing.add_host(HostInfo(LOCAL, LOCAL, 0))
        self.caller.attach(self)
        self.finished = 0

    async def close(self) -> None:
        """End everything."""
        await self.stage.close()

    def send(self, call: Call, host: str, text: str) -> None:
        self.stage.take(read_message(text))

    def release(self, calls: Sequence[Call]) -> None:
        pass  # nothing of them is anywhere else

    def give_up(self, call: Call, text: str) -> None:
        self.caller.take_outcome(call.number, text)

    async def fetch(self, call: Call) -> str:
        return write_failure(Failure(ResultLostError.code, f"the result of {call} is not here"))

    def need(self, message: Message, deliver: Callable[[int, str], None]) -> None:
        for place, number in enumerate(message.refs):
            self._need_one(number, place, deliver)

    def find_caller(self, message: Message) -> Caller:
        return self.caller

    def commit(
        self, message: Message, text: str, effects: Writes | None, then: Callable[[Exception | None], None]
    ) -> None:
        self.caller.take_outcome(message.number, text)
        then(None)

    def record(self, call: FinishedCall) -> None:
        self.finished += 1

    def _need_one(self, number: int, place: int, deliver: Callable[[int, str], None]) -> None:
        call = self.caller.find(number)

        def tell() -> None:
            text = call.text if call is not None else None
            lost = Failure(ResultLostError.code, f"call {number} is not known")
            deliver(place, text if text is not None else write_failure(lost))

        if call is None or not self.caller.add_waiter(call, tell):
            tell()

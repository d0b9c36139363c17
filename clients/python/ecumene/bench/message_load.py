"""Agents that talk in a room: `python -m ecumene.bench.message_load CASE`, where CASE is a JSON document.

A message is an item of the room's stream. It counts as heard by an agent when it is in the agent's mailbox.

    stream   one process talks, another hears: messages follow each other without waiting, a bounded number unanswered
    turns    one process, a session for each side: a message is sent when all have heard the one before it
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ecumene.bench.child import Parent, run_child, tell
from ecumene.bench.load_case import spare_collector, take_share
from ecumene.client.environment import Environment
from ecumene.client.model import EventFilter, EventType, Written
from ecumene.client.watches import FrameWatch
from ecumene.client.world import World, connect

ROOM = "/room"
STREAM = "talk"
TEXT = "x" * 64
UNANSWERED_MAX = 512


@dataclass(frozen=True, slots=True)
class MessageCase:
    """What to do.

    Attributes:
        role: `talk` or `hear` of a stream of messages, or `turns`.
        messages: in all.
        warm: of them, before anything is measured; in turns only.
        agents: that hear each message, on one session.
        watches: one an agent, or 1: one for all of them, whose reader fills all mailboxes, as a runtime does.
    """

    role: str
    address: str
    messages: int
    warm: int = 0
    agents: int = 1
    watches: int = 1


class Listeners:
    """Agents of one session and what they heard."""

    def __init__(self, world: World, case: MessageCase) -> None:
        self._case = case
        self._mailboxes: list[deque[Any]] = [deque() for _ in range(case.agents)]
        only = EventFilter(path_prefix=ROOM, key_glob=STREAM, types=(EventType.ENTRY_APPENDED,))
        self._watches = [world.watch_frames(only) for _ in range(case.watches)]
        self.latencies_s: list[float] = []
        self._left = case.agents
        self.all_heard = asyncio.Event()

    def start(self) -> list[asyncio.Task[None]]:
        """A reader for each watch; each ends when its agents have heard everything."""
        share = len(self._mailboxes) // len(self._watches)
        return [
            asyncio.create_task(
                self._hear(watch, self._mailboxes[index * share : (index + 1) * share]), name=f"listener {index}"
            )
            for index, watch in enumerate(self._watches)
        ]

    def count(self) -> int:
        """Messages heard by all agents together."""
        return sum(map(len, self._mailboxes))

    async def _hear(self, watch: FrameWatch, mailboxes: list[deque[Any]]) -> None:
        heard = 0
        while heard < self._case.messages:
            batch = await anext(watch)
            for message in batch.values:
                for mailbox in mailboxes:
                    mailbox.append(message)
                if isinstance(message, dict) and (sent_s := message["sent_s"]):
                    self.latencies_s.extend([time.monotonic() - sent_s] * len(mailboxes))  # type: ignore[operator]
                self._left -= len(mailboxes)
            heard += len(batch)
            if self._left <= 0:
                self._left += self._case.agents
                self.all_heard.set()


async def talk(case: MessageCase, parent: Parent) -> dict[str, Any]:
    """Send all messages, each when there is room."""
    async with connect(case.address) as world:
        room = await _make_room(world)
        unanswered = asyncio.Semaphore(UNANSWERED_MAX)
        done = 0

        async def say(index: int) -> None:
            nonlocal done
            await _say(room, index, 0.0)
            unanswered.release()
            done += 1

        spare_collector()
        tell({"ready": True})
        await parent.wait_for_go()
        start_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index in range(case.messages):
                await unanswered.acquire()
                group.create_task(say(index), name=f"message {index}")
        return {"done": done, "start_s": start_s}


async def hear(case: MessageCase, parent: Parent) -> dict[str, Any]:
    """Hear all messages."""
    async with connect(case.address) as world:
        listeners = Listeners(world, case)
        await _begin(world)
        spare_collector()
        tell({"ready": True})
        await parent.wait_for_go()
        await asyncio.gather(*listeners.start())
        return {"heard": listeners.count(), "end_s": time.monotonic()}


async def take_turns(case: MessageCase, parent: Parent) -> dict[str, Any]:
    """Send one message after the other, each heard by all before the next."""
    async with AsyncExitStack() as stack:
        speaker = await stack.enter_async_context(connect(case.address))
        hearer = await stack.enter_async_context(connect(case.address))
        room = await _make_room(speaker)
        listeners = Listeners(hearer, case)
        await _begin(hearer)
        spare_collector()
        tell({"ready": True})
        await parent.wait_for_go()
        readers = listeners.start()
        for index in range(case.messages):
            listeners.all_heard.clear()
            await _say(room, index, time.monotonic() if index >= case.warm else 0.0)
            await listeners.all_heard.wait()
        await asyncio.gather(*readers)
        p50_s, p99_s = (take_share(listeners.latencies_s, share) for share in (0.5, 0.99))
        return {"heard": listeners.count(), "p50_ms": 1e3 * p50_s, "p99_ms": 1e3 * p99_s}


async def _make_room(world: World) -> Environment:
    room = world.environment(ROOM)
    await room.register(if_absent=True)
    await room.create_stream(STREAM, if_absent=True)
    return room


async def _say(room: Environment, index: int, sent_s: float) -> Written:
    return await room.append(STREAM, {"from": "talker", "number": index, "text": TEXT, "sent_s": sent_s})


async def _begin(world: World) -> None:
    """Returns when every watch made so far runs on the server."""
    await world.environment("/").describe()  # behind the questions what "now" is
    await world.environment("/").describe()  # behind the starts of the watches


ROLES: dict[str, Callable[[MessageCase, Parent], Awaitable[dict[str, Any]]]] = {
    "talk": talk,
    "hear": hear,
    "turns": take_turns,
}


async def main(document: dict[str, Any]) -> None:
    """Play one role and tell the parent."""
    case = MessageCase(**document)
    async with Parent() as parent:
        tell(await ROLES[case.role](case, parent))


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))

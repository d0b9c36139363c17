"""Actors for tests of workflows: hosts find them as `tests.workflow_actors:Class`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ecumene import workflows
from pydantic import BaseModel

RUNNING: dict[str, int] = {}
RUNNING_MAX: dict[str, int] = {}
GATES: dict[str, threading.Event] = {}
BEGUN: set[str] = set()


@workflows.message
@dataclass(frozen=True)
class Note:
    """A dataclass that travels."""

    text: str
    tags: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


@workflows.message
class Verdict(BaseModel):
    """A pydantic model that travels."""

    winner: str
    score: float


@dataclass
class Unregistered:
    """A dataclass that does not."""

    text: str


class Teller(workflows.Actor):
    """Keeps all that it is told, in order."""

    def __init__(self, name: str = "teller", fail: bool = False) -> None:
        if fail:
            raise LookupError(f"no {name}")
        self.name = name
        self.heard: list[Any] = []

    def tell(self, value: Any) -> Any:
        """Hear a value, and give it back."""
        self.heard.append(value)
        return value

    async def tell_later(self, value: Any, seconds: float = 0.01) -> Any:
        """The same after a while."""
        await asyncio.sleep(seconds)
        self.heard.append(value)
        return value

    async def add(self, *values: Any) -> Any:
        """The sum of all."""
        return sum(values)

    def total(self, values: list[int]) -> int:
        """The sum of a list."""
        return sum(values)

    def all_heard(self) -> list[Any]:
        """What it was told, in order."""
        return self.heard

    def digest(self, *values: Any) -> str:
        """Depends on all that it was ever told, and on the order."""
        self.heard.append([*values])
        return hashlib.sha256(repr(self.heard).encode()).hexdigest()[:12]

    def fail(self, text: str) -> None:
        """Raise, with a cause."""
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError(text) from error

    def make_bytes(self, count: int) -> bytes:
        """So many bytes."""
        return b"x" * count

    def ask(self, other: Any, method: str, *args: Any) -> Any:
        """Call another actor, and wait for it in blocking code."""
        return getattr(other, method)(*args).get()

    async def ask_softly(self, other: Any, method: str, *args: Any) -> Any:
        """Call another actor, and await it."""
        return await getattr(other, method)(*args)

    def pass_on(self, other: Any, method: str, *args: Any) -> Any:
        """Call another actor, and return the placeholder as it is."""
        return [getattr(other, method)(*args), self.name]

    def send(self, other: Any, method: str, *args: Any) -> None:
        """Call another actor, and wait for nothing."""
        getattr(other, method)(*args)

    def ask_itself(self, me: Any) -> Any:
        """Wait for a call on itself."""
        return me.tell(1).get()

    def sleep(self, seconds: float) -> float:
        """Block its thread."""
        time.sleep(seconds)
        return seconds

    def busy(self, key: str, seconds: float) -> int:
        """How many calls with the key ran at a time, at most."""
        with LOCK:
            RUNNING[key] = RUNNING.get(key, 0) + 1
            RUNNING_MAX[key] = max(RUNNING_MAX.get(key, 0), RUNNING[key])
        time.sleep(seconds)
        with LOCK:
            RUNNING[key] -= 1
            return RUNNING_MAX[key]

    def spawn_child(self, value: Any) -> Any:
        """Make an actor, and tell it something."""
        (child,) = workflows.spawn(Teller, 1, "child")
        return child.tell(value)

    def make_child(self, host: str) -> Any:
        """Make an actor on a host, and give its proxy away."""
        return Teller("child").to_dist(host=host)

    def nest(self, me: Any, depth: int) -> Any:
        """Lists within each other, of results of calls on itself."""
        return [me.nest(me, depth - 1)] if depth else 0

    def hang(self, key: str) -> str:
        """Block its thread until the key is let go."""
        GATES.setdefault(key, threading.Event()).wait(60)
        return key

    def shout(self, count: int) -> int:
        """Print so many characters, and a line that looks like a host's."""
        print('{"state": "ended"}')
        print("x" * count)
        return count

    def pid(self) -> int:
        """Of the process it lives in."""
        return os.getpid()

    def note(self, note: Note) -> Note:
        """A dataclass in and out."""
        return Note(note.text.upper(), (*note.tags, self.name), note.more)

    def judge(self, verdict: Verdict) -> Verdict:
        """A model in and out."""
        return Verdict(winner=verdict.winner, score=verdict.score * 2)

    def unregistered(self) -> Any:
        """What cannot be sent."""
        return Unregistered("x")


class ShyError(Exception):
    """An exception that tells nothing of itself."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__cause__", "__context__", "__traceback__", "args"):
            raise ValueError(name)
        return super().__getattribute__(name)

    def __str__(self) -> str:
        raise ValueError("no words")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = None  # type: ignore[assignment]


class OwnExit(BaseException):
    """No Exception."""


def _make_circle() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


HARMS: dict[str, Callable[[], BaseException]] = {
    "stop": lambda: StopIteration(5),
    "stop-async": StopAsyncIteration,
    "cancel": asyncio.CancelledError,
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "own": OwnExit,
    "shy": ShyError,
    "half a sign": lambda: ValueError("\ud800"),
    "group": lambda: BaseExceptionGroup("several", [OwnExit()]),
    "circle": _make_circle,
    "unmade": lambda: workflows.CallFailedError.__new__(workflows.CallFailedError),
    "long": lambda: ValueError("x" * 10_000_000),
}
"""What code may raise that is more, or less, than an error."""


class Harmful(workflows.Actor):
    """Does what it is told to."""

    def raise_(self, harm: str) -> None:
        """In a thread."""
        if harm == "leave":
            raise GeneratorExit
        raise HARMS[harm]()

    async def raise_softly(self, harm: str) -> None:
        """In the loop."""
        raise HARMS[harm]()

    async def cancel_itself(self) -> None:
        """Cancel the task that runs it, and wait for that."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    async def ignore_its_time(self, key: str) -> str:
        """Take no notice of being cancelled until the gate of the key is open."""
        BEGUN.add(key)
        while not GATES[key].is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return key

    async def raise_late(self) -> None:
        """Raise when its time is over."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise LookupError("cut short") from None

    def say(self, word: str) -> str:
        """The same word."""
        return word


class Counter(workflows.Actor):
    """Acts on the world."""

    async def read_modify_write(self, path: str, key: str) -> int:
        """Add one to an entry, the hard way."""
        entry = await self.world.environment(path).get(key)
        assert isinstance(entry.value, int)
        self.effects.set(path, key, entry.value + 1, expect_version=entry.version)
        return entry.value + 1

    def increment(self, path: str, key: str, amount: int = 1) -> str:
        """Add to a counter."""
        self.effects.increment(path, key, amount)
        return f"+{amount}"

    async def increment_slowly(self, path: str, key: str, seconds: float) -> str:
        """Add one, after a while."""
        await asyncio.sleep(seconds)
        self.effects.increment(path, key)
        return "+1"

    def increment_and_wait(self, path: str, key: str, me: Any) -> Any:
        """Stage an effect, and return what comes of a call on itself."""
        self.effects.increment(path, key)
        return me.increment(path, key)

    def increment_and_fail(self, path: str, key: str) -> None:
        """Stage an effect, then raise."""
        self.effects.increment(path, key)
        raise RuntimeError("after the effect was staged")

    def look(self) -> Any:
        """A function cannot use the world."""
        return self.world


LOCK = threading.Lock()

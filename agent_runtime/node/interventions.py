"""What is done to a run from outside, and the note of it: who did what, in the revision in which it was done."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ecumene.client import ClosedError, EcumeneError, UnavailableError, Value, World

from agent_runtime.model.errors import CommandError
from agent_runtime.model.refusals import NodeError, Refusal, refuse_field, refuse_limit
from agent_runtime.node.hosting import HostedRun
from agent_runtime.ownership.places import RUNTIME, RunPlaces
from agent_runtime.worker.commands import Mute, Tell

ACTOR = re.compile(r"[A-Za-z0-9._-]{1,64}")
COMMENT_BYTES_MAX = 1024
MUTE_TIMEOUT_S = 30.0
TOLD_BYTES_MAX = 2000


@dataclass(frozen=True, slots=True)
class Signed:
    """Who intervenes in which run, and the key of the note: unique, and in the order of time."""

    run: str
    actor: str
    comment: str
    node: str
    note: str
    wall_time_ns: int

    def check(self) -> None:
        """Raises NodeError."""
        if not ACTOR.fullmatch(self.actor):
            raise refuse_field("actor", "is 1 to 64 of A-Z a-z 0-9 . _ -")
        if (size := len(self.comment.encode())) > COMMENT_BYTES_MAX:
            raise refuse_limit("comment_bytes_max", COMMENT_BYTES_MAX, size)

    def describe(self, kind: str, **what: Any) -> dict[str, Any]:
        """The note."""
        told = {"kind": kind, "actor": self.actor, "node": self.node, "wall_time_ns": self.wall_time_ns}
        return {**told, **({"comment": self.comment} if self.comment else {}), **what}


@dataclass(frozen=True, slots=True)
class Done:
    """What an intervention came to."""

    revision: int
    result: Any = None


async def append_event(world: World, signed: Signed, path: str, key: str, value: Value) -> Done:
    """Append to a stream, as nobody in the world has done. Raises NodeError, EcumeneError."""
    check_place(path)
    check_key(key)
    transaction = world.transaction().append(path, key, value)
    note = signed.describe("append", path=path, key=key, value=show(value))
    transaction.create(RunPlaces(signed.run).interventions, signed.note, note)
    return Done((await transaction.commit(actor=signed.actor)).revision)


async def run_operation(world: World, signed: Signed, path: str, name: str, args: dict[str, Any]) -> Done:
    """Run an operation of a behaviour. Raises NodeError, EcumeneError."""
    check_place(path)
    note = signed.describe("operation", path=path, operation=name, args=args)
    companions = world.writes().create(RunPlaces(signed.run).interventions, signed.note, note)
    done = await world.environment(path).run(name, args, companions=companions, actor=signed.actor)
    return Done(done.revision, done.result)


async def edit_entry(
    world: World, signed: Signed, path: str, key: str, value: Value, *, deletes: bool, expect_version: int
) -> Done:
    """Set or delete an entry. `expect_version` 0 = whatever it is. Raises NodeError, EcumeneError."""
    check_place(path)
    check_key(key)
    transaction = world.transaction()
    if expect_version:
        transaction.require(path, key, expect_version=expect_version)
    if deletes:
        transaction.delete(path, key)
        note = signed.describe("delete", path=path, key=key)
    else:
        transaction.set(path, key, value)
        note = signed.describe("edit", path=path, key=key, value=show(value))
    transaction.create(RunPlaces(signed.run).interventions, signed.note, note)
    return Done((await transaction.commit(actor=signed.actor)).revision)


async def mute_agent(world: World, signed: Signed, hosting: HostedRun, agent: str, *, muted: bool) -> Done:
    """Let an agent take no more turns, or again; whoever hosts it later knows. Raises NodeError, EcumeneError."""
    found = hosting.find_one(agent)
    transaction = world.transaction()
    if muted:
        transaction.set(RunPlaces(signed.run).muted, agent, {"actor": signed.actor})
    else:
        transaction.delete(RunPlaces(signed.run).muted, agent, if_present=True)
    note = signed.describe("mute" if muted else "unmute", agent=agent)
    transaction.create(RunPlaces(signed.run).interventions, signed.note, note)
    done = await transaction.commit(actor=signed.actor)
    try:
        await found.slot.ask(lambda number: Mute(id=number, agent=agent, muted=muted), MUTE_TIMEOUT_S)
    except CommandError as error:
        raise NodeError(Refusal.AGENT_NOT_FOUND, str(error), run=signed.run, agent=agent) from None
    return Done(done.revision)


async def tell_agent(world: World, signed: Signed, hosting: HostedRun, agent: str, text: str) -> Done:
    """Let an agent remember that it was told a text. Raises NodeError, EcumeneError."""
    if not text.strip():
        raise refuse_field("tell.text", "is empty")
    if (size := len(text.encode())) > TOLD_BYTES_MAX:
        raise refuse_limit("told_bytes_max", TOLD_BYTES_MAX, size)
    found = hosting.find_one(agent)
    note = signed.describe("tell", agent=agent, text=show(text))
    done = await world.environment(RunPlaces(signed.run).interventions).create(signed.note, note, actor=signed.actor)
    try:
        await found.slot.ask(lambda number: Tell(id=number, agent=agent, text=text), MUTE_TIMEOUT_S)
    except CommandError as error:
        raise refuse_field("tell.agent", str(error)) from None
    return Done(done.revision)


async def note_seat(world: World, signed: Signed, agent: str, timeout_s: float) -> Done:
    """Note that a person takes an agent's place. Raises EcumeneError."""
    note = signed.describe("seat", agent=agent, timeout_s=timeout_s)
    written = await world.environment(RunPlaces(signed.run).interventions).create(signed.note, note, actor=signed.actor)
    return Done(written.revision)


def check_place(path: str) -> None:
    """Raises NodeError for what runtimes keep of runs: who owns which agents, and what they remember."""
    if path == RUNTIME or path.startswith(f"{RUNTIME}/"):
        raise refuse_field("path", f"what is below {RUNTIME} is kept by the runtimes themselves")


def check_key(key: str) -> None:
    """Raises NodeError for none: what would be changed, or deleted, is the whole environment."""
    if not key:
        raise refuse_field("key", "must be set")


def show(value: Value) -> Any:
    """A value in a note: as it is, or how long it is."""
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= COMMENT_BYTES_MAX else {"json_chars": len(text)}


def refuse_by_world(error: EcumeneError) -> NodeError:
    """What the world refused, as the node says it."""
    if isinstance(error, UnavailableError | ClosedError) or not error.reason:
        return NodeError(Refusal.WORLD_UNAVAILABLE, "the world cannot be reached", retry_delay_ms=1000)
    return NodeError(Refusal.WORLD_REFUSED, str(error), world_reason=error.reason)

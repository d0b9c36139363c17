"""What a daemon tells its workers, and what they tell it: JSON lines over stdin and stdout.

    daemon ─► worker    the WorkerConfig, once; then one Command a line; the end of stdin = stop
    worker ─► daemon    {"worker": 0, "state": "ready" | "ended" | "failed", …}       its life
                        {"answer": ID, …}                                             to a command, in any order
                        {"answer": ID, "error": "…", "may_pass": true}                it cannot do it; later it may
                        {"lost": "miners.3", "reason": "…"}                           a part that it no longer owns
                        {"seat": AGENT, "turn": 7, …}                                 a turn that waits for a person
                        {"seat": AGENT, "turn": 7, "status": "ok", "reason": "…"}     how that turn has ended

A worker hosts parts: pieces of groups. It owns a part while it holds the part's entry in the world (see ownership/).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_runtime.model.parts import Part


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[int, Field(ge=1)]
    """Chosen by the daemon; the answer names it."""


class Host(_Command):
    """Take a part: own it, go on where its last owner committed. Answer: agents, term, through (revision).

    `wait_s`: how long somebody else may still hold it. `muted`: its agents that take no turns; all others do.
    """

    do: Literal["host"] = "host"
    part: Part
    muted: tuple[str, ...] = ()
    wait_s: Annotated[float, Field(ge=0)] = 0.0


class Drop(_Command):
    """Give a part back. With `drain_s`, turns that run may end first. Answer: through (revision)."""

    do: Literal["drop"] = "drop"
    part: str
    drain_s: Annotated[float, Field(ge=0)] = 0.0


class Inspect(_Command):
    """How the worker and its parts do. Answer: parts, each with its statistics; usage."""

    do: Literal["inspect"] = "inspect"


class AskAgent(_Command):
    """Ask a live agent anything, in a read-only fork of its state. Answer: text or value, status, hashes of the state.

    `answer_schema`: JSON schema of a typed answer (a survey's question); None = free text.
    """

    do: Literal["ask"] = "ask"
    agent: str
    question: str
    answer_schema: dict[str, Any] | None = None
    timeout_s: Annotated[float, Field(gt=0)] = 120.0


class Mute(_Command):
    """An agent takes no turns until unmuted: each of its events ends as a cancelled turn that says so."""

    do: Literal["mute"] = "mute"
    agent: str
    muted: bool = True


class Tell(_Command):
    """An agent remembers that it was told a text, unless it does. Answer: nothing, when the world keeps it."""

    do: Literal["tell"] = "tell"
    agent: str
    text: str


class Seat(_Command):
    """A person takes an agent's place: its turns wait for what the person decides, at most `timeout_s`, then fall back.

    `seated` False gives the place back to the agent.
    """

    do: Literal["seat"] = "seat"
    agent: str
    seated: bool = True
    timeout_s: Annotated[float, Field(gt=0)] = 60.0


class Choice(BaseModel):
    """One action that a person decided on; `change` as of `model.actions.Action`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    path: str
    key: str
    value: Any = None
    change: Literal["set", "append", "increment"] = "set"


class Decide(_Command):
    """What the person in an agent's seat decided for the turn that waits.

    `report`: what the event asks for, in a list of one; None = nothing is reported. Answer: nothing, or an error when
    no such turn waits; the line about the turn's end says what came of it.
    """

    do: Literal["decide"] = "decide"
    agent: str
    turn: Annotated[int, Field(ge=1)]
    report: Annotated[tuple[Any, ...], Field(max_length=1)] | None = None
    actions: tuple[Choice, ...] = ()


Command = Annotated[Host | Drop | Inspect | AskAgent | Mute | Tell | Seat | Decide, Field(discriminator="do")]
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)

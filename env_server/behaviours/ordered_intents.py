"""Intents in order: agents say what they want, and one operation does it all, by agent and number.

    /market            <what the behaviour keeps>      collecting   {"round", "generation", "open"}
    /market/intents    <agent>   {"intents": [{"do": "place", "args": {...}}, ...]}     gate "intents"

What becomes of intents does not depend on when they came: `apply_intents` takes those of a generation by agent and by
their place in its list, and lets each run as the operation that it names, on what those before it have left. All of it
is one revision. Each operation is refused alone, and then leaves nothing.

    class OrderedMarket(OrderedIntents, Market):
        kind = "ordered_market"
        intents = {"place": "trader", "cancel": "trader"}

Events: `intents.wanted`, which agents answer by a report, and `intents.applied`.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Operation, Target, operation
from env_server.behaviours.context import Context
from env_server.behaviours.kept_state import get_kept
from env_server.behaviours.overlay import Overlay
from env_server.behaviours.view import View
from env_server.model.environments import Declaration, Gate
from env_server.model.errors import WorldError
from env_server.model.operations import Code, Write
from env_server.model.values import Json

INTENTS = "intents"
GATE = "intents"
COLLECTING = "collecting"
REFUSALS_TOLD_MAX = 100
INTENTS_A_SLICE = 500


class _Collecting(TypedDict):
    round: int
    generation: int
    open: bool


class Refusal(TypedDict):
    """An intent that had no effect. `seq`: its place among those of its agent."""

    agent: str
    seq: int
    reason: str


class Applied(TypedDict):
    """What became of the intents of a generation."""

    generation: int
    round: int
    agents: int
    applied: int
    refused: int
    refusals: list[Refusal]


_COLLECTING = TypeAdapter(_Collecting)


def _wanting(path: str, participants: int, deadline_ms: int) -> list[Target]:
    return [Target(path, ""), Target(path, COLLECTING), Target(_place(path), "")]


def _applying(path: str, generation: int) -> list[Target]:
    return [Target(path, None), Target(_place(path), None)]


class OrderedIntents(Behaviour):
    """Base of behaviours whose outcome depends on order; beside the behaviour that has the operations."""

    #: Operations that an intent may name, and the argument of each that is the agent.
    intents: ClassVar[dict[str, str]] = {}

    @operation(writes=_wanting)
    async def want_intents(self, ctx: Context, participants: int = 0, deadline_ms: int = 0) -> dict[str, Any]:
        """Asks all agents for their intents. The gate opens after so many, or so long; 0 = not by that.

        Refused with `intents_open` while those asked for before have not been applied.
        """
        if participants < 0 or deadline_ms < 0:
            ctx.refuse("bad_argument", "participants and deadline_ms must not be negative")
        before = get_kept(ctx, COLLECTING, _COLLECTING)
        if before is not None and before["open"]:
            ctx.refuse("intents_open", f"generation {before['generation']} has not been applied")
        known = ctx.environment(_place(ctx.path))
        generation = known.gates[0].gate.generation + 1 if known is not None and known.gates else 1
        wanted = {"round": 1 if before is None else before["round"] + 1, "generation": generation}
        ctx.register_child(INTENTS, Declaration(gates=(Gate(GATE),)))
        ctx.begin_generation(_place(ctx.path), GATE, participants, deadline_ms)
        ctx.set(COLLECTING, {**wanted, "open": True})
        ctx.emit("intents.wanted", {**wanted, "reports": _place(ctx.path)})
        return wanted

    @operation(writes=_applying)
    async def apply_intents(self, ctx: Context, generation: int) -> Applied:
        """Does what the agents of a generation want, and opens its gate if that is still collecting.

        Refused with `no_such_generation`, also when it was applied already.
        """
        collecting = get_kept(ctx, COLLECTING, _COLLECTING)
        known = ctx.environment(_place(ctx.path))
        is_open = collecting is not None and collecting["open"] and collecting["generation"] == generation
        if collecting is None or not is_open or known is None or not known.gates:
            ctx.refuse("no_such_generation", f"generation {generation} is not open", generation=str(generation))
        gate = known.gates[0].gate
        if gate.collecting:
            ctx.open_gate(_place(ctx.path), GATE, generation)
        wanted = _sort_intents(ctx, gate.begin_revision)
        operations = self.operations()
        offered = {name: (operations[name], argument) for name, argument in self.intents.items()}
        staging = _Staging(ctx)
        refusals: list[Refusal] = []
        for number, (agent, seq, intent) in enumerate(wanted):
            if number % INTENTS_A_SLICE == INTENTS_A_SLICE - 1:
                await ctx.breathe()
            if (reason := await _apply(offered, staging, agent, intent)) is not None:
                refusals.append(Refusal(agent=agent, seq=seq, reason=reason))
        ctx.staged += staging.writes()
        ctx.set(COLLECTING, {**collecting, "open": False})
        applied = Applied(
            generation=generation,
            round=collecting["round"],
            agents=len({agent for agent, _, _ in wanted}),
            applied=len(wanted) - len(refusals),
            refused=len(refusals),
            refusals=refusals[:REFUSALS_TOLD_MAX],
        )
        ctx.emit("intents.applied", applied)
        return applied


class _Staging:
    """What the intents so far have staged, each on top of those before."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._overlay = Overlay(ctx.view)
        self._writes: list[Write | None] = []
        self._last_set: dict[tuple[str, str], int] = {}

    def begin(self) -> Context:
        """A context for the next intent: it may write its environment's own keys."""
        view: View = self._overlay
        return Context(self._ctx.path, view, [Target(self._ctx.path, None)])

    def keep(self, attempt: Context) -> None:
        """The intent has its effect. Of values that one key is given one after the other the last one remains."""
        self._overlay.take(attempt.staged)
        for write in attempt.staged:
            place = (write.path, write.key)
            before = self._last_set.pop(place, None)
            if write.code == Code.SET:
                if before is not None:
                    self._writes[before] = None
                self._last_set[place] = len(self._writes)
            self._writes.append(write)

    def writes(self) -> list[Write]:
        """All of them, in order."""
        return [write for write in self._writes if write is not None]


async def _apply(
    offered: Mapping[str, tuple[Operation, str]], staging: _Staging, agent: str, intent: Any
) -> str | None:
    """Lets one intent have its effect; returns why it has none."""
    do = intent.get("do") if isinstance(intent, dict) else None
    asked = intent.get("args", {}) if isinstance(intent, dict) else None
    if not isinstance(do, str) or do not in offered or not isinstance(asked, dict):
        return "no_such_intent"
    called, argument = offered[do]
    attempt = staging.begin()
    try:
        await called.method(attempt, **called.parse(Json.of({**asked, argument: agent})))
    except WorldError as error:
        return str(error.metadata.get("code") or error.reason.name)
    staging.keep(attempt)
    return None


def _sort_intents(ctx: Context, begin_revision: int) -> list[tuple[str, int, Any]]:
    """The intents of a generation, by agent and by their place in its list."""
    found = []
    for agent, entry in ctx.entries(_place(ctx.path)).items():
        if entry.reported <= begin_revision or not isinstance(entry.value, Json):
            continue
        wanted = json.loads(entry.value.text)
        listed = wanted.get("intents") if isinstance(wanted, dict) else None
        if isinstance(listed, list):
            found += [(agent, seq, intent) for seq, intent in enumerate(listed)]
    return sorted(found, key=lambda one: one[:2])


def _place(path: str) -> str:
    return f"{path.rstrip('/')}/{INTENTS}"

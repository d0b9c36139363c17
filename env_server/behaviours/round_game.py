"""What is played in rounds: each agent reports once a round, then the game says what came of it.

    class PublicGoods(RoundGame):
        kind = "public_goods"

        async def settle(self, ctx, number, reports):
            given = sum(reports.values())
            for agent, amount in reports.items():
                ctx.add(agent, 1.6 * given / len(reports) - amount)
            return {"mean": given / len(reports)}

The environment of such a kind has one child, `reports`. A report is a plain update of the agent's own key there, under
the gate's generation; one that is `{"status": …}` says how a turn ended that had no report.

    /goods           round     {"round", "generation", "reports", "open", "last"}
                     history   stream of what the rounds came to
                     …         what the game keeps
    /goods/reports   <agent>   the agent's last report         gate "round", aggregate "reports"

Events of the environment: `round.opened`, whose document agents are told, and `round.closed`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.behaviours.kept_state import get_kept
from env_server.model.environments import Aggregate, Declaration, Function, Gate

REPORTS = "reports"
GATE = "round"
_SLICE = 20_000


class _Round(TypedDict):
    round: int
    generation: int
    open: bool
    last: Any


_ROUND = TypeAdapter(_Round)
_DECLARATION = Declaration(
    aggregates=(Aggregate("reports", Function.COUNT, in_generation=True),),
    gates=(Gate(GATE),),
)


def _open_writes(path: str, participants: int, deadline_ms: int) -> list[Target]:
    return [Target(path, None), Target(f"{path}/{REPORTS}", "")]


def _close_writes(path: str, generation: int) -> list[Target]:
    return [Target(path, None), Target(f"{path}/{REPORTS}", None)]


class RoundGame(Behaviour):
    """Base of kinds that are played in rounds. Override `settle`, and `begin` where agents are to be told something."""

    kind: ClassVar[str]

    async def begin(self, ctx: Context, number: int) -> Mapping[str, Any]:
        """What agents are told when round `number` begins, counted from 1; `last` is told in any case.

        May read the world and write into its own environment.
        """
        return {}

    async def settle(self, ctx: Context, number: int, reports: Mapping[str, Any]) -> Mapping[str, Any]:
        """What came of a round: any JSON, its numbers being the round's figures. Agents are told it next, as `last`.

        `reports`: agent -> what it reported in this round, in the order of their ids; without those who had no report.
        May read the world and write into its own environment; all of it is one revision. May await `ctx.breathe()`.
        """
        raise NotImplementedError

    @operation(writes=_open_writes)
    async def open_round(self, ctx: Context, participants: int = 0, deadline_ms: int = 0) -> dict[str, Any]:
        """Begins the next round.

        Its gate opens after `participants` reports (0 = not by count) or `deadline_ms` (0 = not by time). Refused with
        `round_open` while a round is open.
        """
        if participants < 0 or deadline_ms < 0:
            ctx.refuse("bad_argument", "participants and deadline_ms must not be negative")
        state = get_kept(ctx, "round", _ROUND)
        if state is not None and state["open"]:
            ctx.refuse("round_open", f"round {state['round']} is open", round=str(state["round"]))
        reports = f"{ctx.path}/{REPORTS}"
        known = ctx.environment(reports)
        number = 1 if state is None else state["round"] + 1
        own = {
            "round": number,
            "generation": known.gates[0].gate.generation + 1 if known is not None and known.gates else 1,
            "reports": reports,
            "last": None if state is None else state["last"],
        }
        opened = {**await self.begin(ctx, number), **own}
        ctx.register_child(REPORTS, _DECLARATION)
        ctx.begin_generation(reports, GATE, participants, deadline_ms)
        ctx.set("round", {**own, "open": True})
        ctx.emit("round.opened", opened)
        return opened

    @operation(writes=_close_writes)
    async def close_round(self, ctx: Context, generation: int) -> dict[str, Any]:
        """Ends the round, and says what came of it.

        Opens the gate first when it is still collecting; reports that arrive meanwhile are late. Refused with
        `no_such_round` unless the round of `generation` is open.
        """
        state = get_kept(ctx, "round", _ROUND)
        if state is None or not state["open"] or state["generation"] != generation:
            ctx.refuse("no_such_round", f"generation {generation} is not open", generation=str(generation))
        reports = f"{ctx.path}/{REPORTS}"
        known = ctx.environment(reports)
        if known is None or not known.gates:
            ctx.refuse("no_reports", f"{reports} has lost its gate", path=reports)
        gate = known.gates[0].gate
        if gate.collecting:
            ctx.open_gate(reports, GATE, generation)
        reported, failed = await _read_reports(ctx, reports, gate.begin_revision)
        came = dict(await self.settle(ctx, state["round"], reported))
        closed = {
            **came,
            "round": state["round"],
            "generation": generation,
            "reported": len(reported),
            "failed": failed,
        }
        ctx.append("history", closed)
        ctx.set("round", {**state, "open": False, "last": came})
        ctx.emit("round.closed", closed)
        return closed


async def _read_reports(ctx: Context, reports: str, begin_revision: int) -> tuple[dict[str, Any], int]:
    """What came in since the round began, by agent, and how many turns had no report."""
    reported: dict[str, Any] = {}
    failed = 0
    for seen, (agent, entry) in enumerate(sorted(ctx.entries(reports).items())):
        if seen % _SLICE == _SLICE - 1:
            await ctx.breathe()
        if entry.reported <= begin_revision:
            continue
        value = ctx.get(agent, reports)
        if isinstance(value, dict) and set(value) == {"status"}:
            failed += 1
        else:
            reported[agent] = value
    return reported, failed

"""Guess the average: everybody names a number; who is nearest to ratio × mean + offset wins.

The game's environment has one child, `reports`. A report is a plain update of the agent's own key there, naming the
gate's generation: a number, or for a failed turn anything that is no number (it counts for the gate, not for the
mean). Operations open a round (the next generation) and close it (mean, target, winner).

    /game           round     {"round", "generation", "open", "last_winner"}
                    history   stream of closed rounds
    /game/reports   <agent>   the agent's last report        gate "round", aggregates "mean", "reports"
    /game/groups    <agent>   the name of its group, where groups play

Where groups play (`groups` in the config), a group's number is the mean of its members' numbers, however many they are;
the mean of a round is that of the groups' numbers, the group nearest to the target wins, and the next opening tells the
numbers of all groups. What an agent of no group reports counts for the gate alone.

Events of the game's environment: `round.opened`, `round.closed`.
"""

import math
from typing import Annotated, Any, ClassVar, NamedTuple, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.behaviours.kept_state import get_config, get_kept
from env_server.model.environments import Aggregate, Declaration, Function, Gate

REPORTS = "reports"
GROUPS = "groups"
GATE = "round"
_SLICE = 20_000


class _Round(TypedDict):
    round: int
    generation: int
    open: bool
    last_groups: NotRequired[dict[str, float | None]]


class _Rules(TypedDict, total=False):
    ratio: Annotated[float, Field(ge=-1e100, le=1e100)]
    offset: Annotated[float, Field(ge=-1e100, le=1e100)]
    groups: Annotated[list[str], Field(max_length=1_000)]


_ROUND = TypeAdapter(_Round)
_RULES = TypeAdapter(_Rules)


def _open_writes(path: str, participants: int, deadline_ms: int) -> list[Target]:
    return [Target(path, ""), Target(path, "round"), Target(_reports(path), "")]


def _close_writes(path: str, generation: int) -> list[Target]:
    return [Target(path, "round"), Target(path, "history"), Target(_reports(path), None)]


class GuessGame(Behaviour):
    """The guess game. Config: ratio (default 2/3), offset (default 0), groups (default none: agents play)."""

    kind: ClassVar[str] = "guess_game"

    @operation(writes=_open_writes)
    async def open_round(self, ctx: Context, participants: int = 0, deadline_ms: int = 0) -> dict[str, Any]:
        """Begins the next round.

        Its gate opens after `participants` reports (0 = not by count) or `deadline_ms` (0 = not by time). Refused with
        `round_open` while a round is open.
        """
        if participants < 0 or deadline_ms < 0:
            ctx.refuse("bad_argument", "participants and deadline_ms must not be negative")
        state = _state(ctx)
        if state.get("open"):
            ctx.refuse("round_open", f"round {state['round']} is open", round=str(state["round"]))
        reports = _reports(ctx.path)
        known = ctx.environment(reports)
        generation = known.gates[0].gate.generation + 1 if known is not None and known.gates else 1
        rules = _rules(ctx)
        opened = {
            "round": state.get("round", 0) + 1,
            "generation": generation,
            "reports": reports,
            "last_winner": state.get("last_winner"),
            "ratio": rules.ratio,
            "offset": rules.offset,
        }
        if rules.groups:
            last = state.get("last_groups") or {}
            opened["groups"] = {name: last.get(name) for name in rules.groups}
        ctx.register_child(REPORTS, _REPORTS_DECLARATION)
        ctx.begin_generation(reports, GATE, participants, deadline_ms)
        ctx.set("round", {**opened, "open": True})
        ctx.emit("round.opened", opened)
        return opened

    @operation(writes=_close_writes)
    async def close_round(self, ctx: Context, generation: int) -> dict[str, Any]:
        """Ends the round: takes the mean of the reported numbers and finds the winner.

        Opens the gate first when it is still collecting; reports that arrive meanwhile are late. Refused with
        `no_such_round` unless the round of `generation` is open. Ties go to the smallest id, or name of a group.
        """
        state = _state(ctx)
        if not state.get("open") or state["generation"] != generation:
            ctx.refuse("no_such_round", f"generation {generation} is not open", generation=str(generation))
        reports = _reports(ctx.path)
        known = ctx.environment(reports)
        mean = ctx.aggregates(reports).get("mean")
        if known is None or not known.gates or mean is None:
            ctx.refuse("no_reports", f"{reports} has lost its gate or its mean", path=reports)
        gate = known.gates[0].gate
        if gate.collecting:
            ctx.open_gate(reports, GATE, generation)
        rules = _rules(ctx)
        groups = None
        taken = mean.value
        if rules.groups:
            groups = await _average_groups(ctx, reports, gate.begin_revision, rules.groups)
            taken = _average([number for number in groups.values() if number is not None])
        target = None if taken is None else rules.ratio * taken + rules.offset
        if target is not None and not math.isfinite(target):
            target = None
        if groups is None:
            winner, number, tied = await _nearest(ctx, reports, gate.begin_revision, target)
        else:
            winner, number, tied = _nearest_group(groups, target)
        closed = {
            "round": state["round"],
            "generation": generation,
            "reported": mean.numbers,
            "failed": mean.entries - mean.numbers,
            "mean": taken,
            "target": target,
            "winning_number": target,
            "winner": winner,
            "winner_number": number,
            "tied": tied,
        }
        kept = {**state, "open": False, "last_winner": target}
        if groups is not None:
            closed["groups"] = kept["last_groups"] = groups
        ctx.append("history", closed)
        ctx.set("round", kept)
        ctx.emit("round.closed", closed)
        return closed


_REPORTS_DECLARATION = Declaration(
    aggregates=(
        Aggregate("mean", Function.MEAN, in_generation=True),
        Aggregate("reports", Function.COUNT, in_generation=True),
    ),
    gates=(Gate(GATE),),
)


def _reports(path: str) -> str:
    return f"{path.rstrip('/')}/{REPORTS}"


class _Played(NamedTuple):
    """The rules as they are, with what is usual filled in."""

    ratio: float
    offset: float
    groups: list[str]


def _rules(ctx: Context) -> _Played:
    rules = get_config(ctx, _RULES)
    return _Played(rules.get("ratio", 2 / 3), rules.get("offset", 0.0), rules.get("groups", []))


def _state(ctx: Context) -> dict[str, Any]:
    return dict(get_kept(ctx, "round", _ROUND) or {})


async def _average_groups(ctx: Context, reports: str, begin_revision: int, names: list[str]) -> dict[str, float | None]:
    """The number of each group: the mean of its members' numbers, None where no member reported any."""
    members = ctx.entries(f"{ctx.path.rstrip('/')}/{GROUPS}")
    numbers: dict[Any, list[float]] = {name: [] for name in names}
    for seen, (agent, entry) in enumerate(ctx.entries(reports).items()):
        if seen % _SLICE == _SLICE - 1:
            await ctx.breathe()
        reported: Any = entry[0]
        group = members.get(agent)
        if group is None or type(group[0]) is not str or group[0] not in numbers:
            continue
        if entry.reported > begin_revision and (type(reported) is float or type(reported) is int):
            numbers[group[0]].append(reported)
    return {name: _average(some) for name, some in numbers.items()}


def _average(numbers: list[float]) -> float | None:
    try:
        return math.fsum(numbers) / len(numbers) if numbers else None
    except OverflowError:
        return None


def _nearest_group(groups: dict[str, float | None], target: float | None) -> tuple[str | None, float | None, int]:
    """Which group's number is nearest to the target, what it is, and how many are equally near."""
    if target is None:
        return None, None, 0
    distances = {name: abs(number - target) for name, number in groups.items() if number is not None}
    least = min(distances.values())
    nearest = [name for name, distance in distances.items() if distance == least]
    return min(nearest), groups[min(nearest)], len(nearest)


async def _nearest(
    ctx: Context, reports: str, begin_revision: int, target: float | None
) -> tuple[str | None, float | None, int]:
    """Who reported nearest to the target, what, and how many are equally near."""
    if target is None:
        return None, None, 0
    best = float("inf")
    winner: str | None = None
    number: Any = None
    tied = 0
    for seen, (agent, entry) in enumerate(ctx.entries(reports).items()):
        if seen % _SLICE == _SLICE - 1:
            await ctx.breathe()
        reported = entry[0]
        if entry.reported <= begin_revision or not (type(reported) is float or type(reported) is int):
            continue
        distance = abs(reported - target)
        if distance < best:
            best, winner, number, tied = distance, agent, reported, 1
        elif distance == best:
            tied += 1
            if winner is None or agent < winner:
                winner, number = agent, reported
    return winner, number, tied

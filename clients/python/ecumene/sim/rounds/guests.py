"""Guests: whoever plays beside the agents of a run, in any language, without being launched by it.

    /game/players   <id>   a member: an agent of the run under the run's lease, a guest under its own

The gate of the reports waits for all live members. So a guest joins with a lease when it likes, reports as an agent
does, and leaves by leaving or by dying: then its lease ends, and the round goes on without it. Who joins while a round
is open is waited for in it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ecumene.client.environment import Environment
from ecumene.client.event_batch import Event
from ecumene.client.leases import Lease
from ecumene.client.model import Aggregate, AggregateFunction, EventType, Gate, Invoked
from ecumene.client.reasons import EntryExistsError, EnvironmentNotFoundError
from ecumene.client.records import TurnStatus
from ecumene.client.world import World

PLAYERS = "players"
GUESTS = "guests"
"""The group that guests are recorded as."""
REPORTS = "reports"
GATE = "round"
LEASE_TTL_S = 20.0
JOIN_RETRY_S, JOIN_GRACE_S = 0.5, 5.0
MEMBER_EVENTS = (EventType.MEMBER_JOINED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED)
# As the game itself declares them, beside a gate that waits for members.
AGGREGATES = (
    Aggregate("mean", AggregateFunction.MEAN, in_generation=True),
    Aggregate("reports", AggregateFunction.COUNT, in_generation=True),
)


@dataclass(frozen=True, slots=True)
class GuestTurn:
    """A round of one guest.

    Attributes:
        turn: the number of the round.
        number: what it reported; None if no number came in time.
        status, reason: as those of an agent's turn.
        opened_revision, opened_ns: the opening of the round, and its wall time.
        ended_ns: wall time of the report, or of the end of the round.
        commit_revision: of the report; None without one.
    """

    turn: int
    number: float | None
    status: TurnStatus
    reason: str
    opened_revision: int
    opened_ns: int
    ended_ns: int
    commit_revision: int | None = None


class Guests:
    """The guests of one game. `open` once, then `take` every event of members that others than this session cause."""

    def __init__(self, world: World, agents: Sequence[str], *, awaited: int, holder: str) -> None:
        """`agents`: ids of all agents of the run. `awaited`: guests for whom the first round waits."""
        self._world = world
        self._agents = agents
        self._awaited = awaited
        self._holder = holder
        self._present: set[str] = set()
        self._in_round: set[str] = set()
        self._opened_revision = 0

    @property
    def are_enough(self) -> bool:
        """Whether as many are here as the first round waits for."""
        return len(self._present) >= self._awaited

    @property
    def in_round(self) -> int:
        """Those who were here at some time of the round that was begun last."""
        return len(self._in_round)

    async def open(self, stack: AsyncExitStack, game: Environment) -> None:
        """Let the agents join, and have the gate wait for all who have joined, until the stack is left.

        Without its lease nobody is waited for: when it is lost the block is cancelled, and the stack raises
        LeaseExpiredError. Raises EcumeneError.
        """
        players, reports = game.child(PLAYERS), game.child(REPORTS)
        gate = Gate(GATE, all_live_members=True, members_path=players.path)
        await players.register(if_absent=True)
        if not (await reports.register(aggregates=AGGREGATES, gates=[gate], if_absent=True)).changed:
            await reports.change(set_gates=[gate])
        # Those who stayed from an earlier run; whoever comes or goes from now on is told.
        agents = set(self._agents)
        self._present |= {entry.key async for entry in players.entries() if entry.key not in agents}
        lease = await stack.enter_async_context(self._world.lease(LEASE_TTL_S, holder=self._holder))
        await self._join(lease, players.path)

    def take(self, event: Event) -> None:
        """Somebody came or went."""
        if event.type is EventType.MEMBER_JOINED:
            self._present.add(event.key)
            self._in_round.add(event.key)
        elif event.key in self._present:
            self._present.discard(event.key)
            if event.revision < self._opened_revision:
                self._in_round.discard(event.key)

    def begin_round(self, revision: int) -> None:
        """A round was opened at a revision; events of before may still be to come."""
        self._opened_revision = revision
        self._in_round = set(self._present)

    async def read_turns(self, game: Environment, closing: Invoked) -> Mapping[str, GuestTurn]:
        """What became of each guest of a round that is over, by what closed it. Raises EcumeneError."""
        opened_ns = await _read_time(game, self._opened_revision)
        closed_ns = await _read_time(game, closing.revision)
        number = closing.result["round"] if isinstance(closing.result, dict) else 0
        reports = game.child(REPORTS)
        return {
            guest: await self._read_turn(reports, guest, int(number), opened_ns, closing.revision, closed_ns)  # type: ignore[arg-type]
            for guest in sorted(self._in_round)
        }

    async def _join(self, lease: Lease, path: str) -> None:
        """Let the agents join; those of an earlier run that was killed have to go first, with its lease."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEASE_TTL_S + JOIN_GRACE_S
        while True:
            try:
                await lease.join(path, self._agents)
                return
            except EntryExistsError:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(JOIN_RETRY_S)

    async def _read_turn(
        self, reports: Environment, guest: str, turn: int, opened_ns: int, closed_revision: int, closed_ns: int
    ) -> GuestTurn:
        revision = self._opened_revision
        past = (await reports.read_past(guest, from_revision=revision + 1, to_revision=closed_revision)).values
        if not past:
            status, reason = TurnStatus.CANCELLED, "left without a report"
            if guest in self._present:
                status, reason = TurnStatus.TIMEOUT, "no report before the round ended"
            return GuestTurn(turn, None, status, reason, revision, opened_ns, closed_ns)
        last = past[-1]  # who reports again takes back what was said before
        number, status, reason = None, TurnStatus.PARSE_ERROR, "reported no number"
        if isinstance(last.value, int | float) and not isinstance(last.value, bool):
            number, status, reason = float(last.value), TurnStatus.OK, ""
        return GuestTurn(turn, number, status, reason, revision, opened_ns, last.wall_time_ns, last.revision)


async def close_to_guests(game: Environment) -> None:
    """Have the gate of a game wait for nobody who stayed from an earlier run. Raises EcumeneError."""
    reports = game.child(REPORTS)
    try:
        gates = (await reports.describe()).gates
    except EnvironmentNotFoundError:
        return
    if any(state.gate.all_live_members for state in gates):
        await reports.change(set_gates=[Gate(GATE)])


async def _read_time(game: Environment, revision: int) -> int:
    """Wall time of the revision in which a round was opened or closed."""
    past = (await game.read_past("round", from_revision=revision, to_revision=revision)).values
    return past[0].wall_time_ns if past else 0

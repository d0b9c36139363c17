"""Rule agents whose time has come: a pack does what its rule says, and is told when to be woken again.

thinkers ─► wake_many ─► checked ─► what they want next, a block ─► what they do, a block behind it ─► records

The two blocks are two ops an agent. If only the first took effect, whoever takes the part over finds in the log that
the turn was begun, and takes it again; in the second the agent is the producer, so that it takes effect once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ecumene.client import EcumeneError, FrameResult, Json
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import ADOPTED, Settled, judge_failure
from agent_runtime.actions.validation import find_path_problem
from agent_runtime.agents.agent import RuleAgents
from agent_runtime.model.actions import Outcome
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.wakes import NEVER_NS, Wake, write_wakes
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.recording import RecordingError
from agent_runtime.turns.ends import (
    MUTED,
    OK,
    STOPPED,
    UNANSWERED,
    TurnEnd,
    end_by_incident,
)
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.part_wakes import PartWakes
from agent_runtime.turns.routines import Decided, decide_routine
from agent_runtime.turns.thinking import Thinkers

Revisions = npt.NDArray[np.int64]
ACT = "act"
"""What is recorded of what a rule agent does when its time has come."""


class ColumnWakes:
    """Of one part."""

    def __init__(self, context: PartContext, wakes: PartWakes, agents: RuleAgents, close: Any, release: Any) -> None:
        """`close` records turns that ended alike, see ColumnFrames; `release` frees their agents."""
        self._context = context
        self._wakes = wakes
        self._agents = agents
        self._close = close
        self._release = release

    def find_times(self, pack: Thinkers) -> list[int]:
        """When each of a pack was to be woken."""
        told = pack.notice.sim_time_ns
        times: list[int] = [told] * len(pack) if told is not None else self._wakes.times(pack.rows).tolist()
        return times

    async def answer(self, pack: Thinkers, keys: list[str]) -> None:
        """Decide for agents whose time has come, and send what they decided. Raises RecordingError."""
        times = self.find_times(pack)
        decided: Decided | None = None
        frames: list[asyncio.Future[FrameResult]] = []
        try:
            decided = decide_routine(self._agents, keys, times)
            await self._check(keys, decided)
            frames.append(await self._ask(pack, keys, times, decided.next_ns))
            await self._act(pack, keys, decided, frames)
        except asyncio.CancelledError:
            # The first block may have taken effect; then they are taken again all the same.
            await self._close(pack, STOPPED)
            raise
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: what ends these turns ends no others
            where = f"wakes of {len(keys)} agents of {self._context.group.name}"
            end = end_by_incident(self._context.incidents, where, error)
            # Their routines go on, in the book as in memory; what has been sent is done, and what was not is not.
            if decided is None:
                decided = Decided("", [NEVER_NS] * len(pack), [None] * len(pack))
                decided.ends = dict.fromkeys(range(len(pack)), end)
            unsent = list(decided.list_acts())[max(len(frames) - 1, 0) :]
            decided.ends.update((place, end) for acts in unsent for place in acts.places)
            next_ns = decided.next_ns
            frames = frames or await self._ask_after_all(pack, keys, times, next_ns)
            if not frames:
                await self._close(pack, end)
                self._free(pack, next_ns)
                return
        sent = self._wakes.sent.add(decided.next_ns)
        self._context.tasks.start(self._settle(pack, decided, frames, sent), "column wakes")

    def list_done(self, known: Mapping[int, DoneTurn]) -> dict[int, DoneTurn]:
        """Of turns that an earlier owner began, by place: those that have had their effect."""
        return {place: done for place, done in known.items() if done.effects}

    async def adopt(self, pack: Thinkers, done: Sequence[DoneTurn]) -> None:
        """Record turns that were taken before as they were, and free their agents."""
        values = [one.effects[0].value for one in done]
        revisions = np.array([one.effects[0].revision for one in done])
        paths = dict.fromkeys(one.effects[0].path for one in done)
        for path in paths:
            places = [place for place, one in enumerate(done) if one.effects[0].path == path]
            told = [values[place] for place in places]
            end = TurnEnd(TurnStatus.OK, ADOPTED)
            await self._close(pack.select(places), end, told, revisions[places], act=(ACT, path))
        self._wakes.end_unchanged(pack.rows)
        self._release(pack)

    async def _check(self, keys: list[str], decided: Decided) -> None:
        """Who is muted does nothing, and goes on with its routine; nobody acts where that cannot be."""
        presence = self._context.presence
        if not presence.is_plain:
            decided.ends.update((place, MUTED) for place, key in enumerate(keys) if key in presence.muted)
        if decided.path and (problem := await self._find_problem(decided.path)):
            failed = TurnEnd(TurnStatus.ERROR, problem)
            decided.ends.update((place, failed) for acts in list(decided.list_acts()) for place in acts.places)

    async def _find_problem(self, path: str) -> str:
        """Why nothing can be done there; "" if nothing is in the way."""
        if problem := find_path_problem(path):
            return problem
        try:
            await self._context.places.find(ACT, path)
        except ActionRefusedError as error:
            return error.problem
        except EcumeneError as error:
            return judge_failure(error)[1]
        return ""

    async def _ask(
        self, pack: Thinkers, keys: list[str], times: list[int], next_times: list[int]
    ) -> asyncio.Future[FrameResult]:
        """The block of what they want next."""
        known: dict[tuple[int, int], dict[str, Json]] = {}
        documents = []
        for next_ns, at_ns in zip(next_times, times, strict=True):
            if (document := known.get((next_ns, at_ns))) is None:
                wakes = () if next_ns == NEVER_NS else (Wake(next_ns),)
                document = known[next_ns, at_ns] = write_wakes(wakes, at_ns)
            documents.append(document)
        notice, path = pack.notice, self._wakes.book.path
        return await self._context.outbox.submit(
            path, 0, notice.revision, keys, documents, notice.event.id, is_repeatable=False
        )

    async def _ask_after_all(
        self, pack: Thinkers, keys: list[str], times: list[int], next_times: list[int]
    ) -> list[asyncio.Future[FrameResult]]:
        """The same for turns that an incident has ended before; none if there was another one."""
        try:
            return [await self._ask(pack, keys, times, next_times)]
        except asyncio.CancelledError:
            await self._close(pack, STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            self._context.incidents.note(f"what {len(keys)} agents of {self._context.group.name} want next", error)
            return []

    async def _act(
        self, pack: Thinkers, keys: list[str], decided: Decided, frames: list[asyncio.Future[FrameResult]]
    ) -> None:
        """The blocks of what they do, each into `frames` once it is on its way."""
        outbox, notice = self._context.outbox, pack.notice
        for acts in decided.list_acts():
            ids, cause = [keys[place] for place in acts.places], notice.event.id
            frame = outbox.submit(decided.path, 0, notice.revision, ids, acts.values, cause, positions=acts.positions)
            frames.append(await frame)

    async def _settle(
        self, pack: Thinkers, decided: Decided, frames: list[asyncio.Future[FrameResult]], sent: int
    ) -> None:
        """Record what became of a pack, and free its agents for what they want next."""
        await self._judge(pack, decided, frames)
        self._free(pack, decided.next_ns)
        self._wakes.sent.settle(sent)

    async def _judge(self, pack: Thinkers, decided: Decided, frames: list[asyncio.Future[FrameResult]]) -> None:
        try:
            asked, *done = [await self._settle_block(frame, len(pack)) for frame in frames]
        except asyncio.CancelledError:
            # The ops may have taken effect; whoever takes these turns again then adopts them.
            await self._close(pack, UNANSWERED)
            raise
        revisions = np.zeros(len(pack), dtype=np.int64)
        acting: list[int] = []
        for acts, settled in zip(list(decided.list_acts()), done, strict=True):
            if isinstance(settled, TurnEnd):
                decided.ends.update(dict.fromkeys(acts.places, settled))
                continue
            acting += acts.places
            revisions[acts.places] = settled.revisions
            for index, outcome in settled.others.items():
                revisions[acts.places[index]] = outcome.revision or 0
                decided.ends |= _judge_one(acts.places[index], outcome)
        if isinstance(asked, TurnEnd):
            decided.ends.update(dict.fromkeys(range(len(pack)), asked))
        else:
            for index, outcome in asked.others.items():
                if outcome.error is not None:
                    decided.ends[index] = TurnEnd(*judge_failure(outcome.error))
        await self._record(pack, decided, acting, revisions)

    async def _settle_block(self, frame: asyncio.Future[FrameResult], agents: int) -> Settled | TurnEnd:
        """What became of a block, or how the turns end of which nobody knows it. Other blocks are told as they were."""
        try:
            return await self._context.outbox.settle(frame)
        except EcumeneError as error:
            return TurnEnd(*judge_failure(error))
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            where = f"the answer of {agents} agents of {self._context.group.name}"
            return end_by_incident(self._context.incidents, where, error)

    async def _record(self, pack: Thinkers, decided: Decided, acting: list[int], revisions: Revisions) -> None:
        """Each turn, those that ended alike together."""
        alike: dict[tuple[TurnEnd, bool], list[int]] = {}
        active = set(acting)
        for place in range(len(pack)):
            alike.setdefault((decided.ends.get(place, OK), place in active), []).append(place)
        for (end, acts), places in alike.items():
            some = pack.select(places)
            if not acts:
                await self._close(some, end)
                continue
            known = revisions[places]
            told = [decided.values[place] for place in places]
            await self._close(some, end, told, known if known.all() else None, act=(ACT, decided.path))

    def _free(self, pack: Thinkers, next_ns: list[int]) -> None:
        self._wakes.end_many(pack.rows, np.array(next_ns, dtype=np.int64))
        self._release(pack)


def _judge_one(place: int, outcome: Outcome) -> dict[int, TurnEnd]:
    """How a turn ended whose op was not simply done."""
    if outcome.error is not None:
        return {place: TurnEnd(*judge_failure(outcome.error))}
    return {place: TurnEnd(TurnStatus.OK, ADOPTED)} if outcome.duplicate else {}

"""From rule agents that have thought to their records: a pack decides together, and leaves as one frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ecumene.client import EcumeneError, FrameResult

from agent_runtime.actions.settlement import ADOPTED, Settled, judge_failure, read_adopted
from agent_runtime.agents.agent import RuleAgents
from agent_runtime.agents.cohort import Cohort
from agent_runtime.model.actions import REPORT, Outcome
from agent_runtime.model.notices import Ask
from agent_runtime.recording import RecordingError
from agent_runtime.turns.column_wakes import ColumnWakes
from agent_runtime.turns.deciding import Failures, all_numbers, decide
from agent_runtime.turns.ends import MUTED, OK, STOPPED, UNANSWERED, TurnEnd, end_by_incident, make_no_answer
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.sitting import Sitting
from agent_runtime.turns.thinking import Thinkers


class ColumnFrames:
    """The packs of one part. Frames overlap: what the world answers is awaited in a task a frame."""

    def __init__(
        self, context: PartContext, cohort: Cohort, agents: RuleAgents, release: Callable[[Thinkers], None]
    ) -> None:
        """`release`: turns have ended, and their agents are free for their next notice."""
        self._context = context
        self._cohort = cohort
        self._agents = agents
        self._release = release
        self.wakes = None
        """What is done by those whose time has come; None: the group lives by no clock."""
        if context.wakes is not None:
            self.wakes = ColumnWakes(context, context.wakes, agents, self.close, release)
        self._sitting: set[asyncio.Task[None]] = set()

    async def answer(self, pack: Thinkers) -> None:
        """Decide for agents that have thought, and send what they decided."""
        keys: list[str] = self._cohort.select_ids(pack.rows).to_pylist()
        if pack.notice.is_wake and self.wakes is not None:
            await self.wakes.answer(pack, keys)
            return
        unsent = set(range(len(keys)))
        apart: set[int] = set()
        try:
            values, failures = await decide(self._context, self._agents, keys, pack.notice)
            by_end: dict[TurnEnd, list[int]] = {}
            if not self._context.presence.is_plain:
                self._part_with(pack, keys, values, failures, apart)
                unsent -= apart
            for place in range(len(keys)):
                if place in apart:
                    continue
                by_end.setdefault(failures.get(place, OK), []).append(place)
            for end, places in by_end.items():
                acted = end.status.acted
                told = [values[place] for place in places] if acted else [make_no_answer(end)] * len(places)
                await self._send(pack.select(places), [keys[place] for place in places], told, end)
                unsent.difference_update(places)
        except asyncio.CancelledError:
            await self.close(pack.select(sorted(unsent - apart)), STOPPED)
            raise
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: what ends these turns ends no others
            left = sorted(unsent - apart)
            await self._break_off(pack.select(left), [keys[place] for place in left], error)

    async def close(
        self,
        pack: Thinkers,
        end: TurnEnd,
        values: Sequence[Any] | None = None,
        revisions: Any = None,
        *,
        act: tuple[str, str] | None = None,
    ) -> None:
        """Record turns that ended alike; numbers are recorded as their action, a report or else `act` at a path."""
        acted = values is not None and len(values) > 0 and all_numbers(values[:1])
        if act is None and pack.notice.ask is not None:
            act = (REPORT, pack.notice.ask.path)
        await self._context.records.close_many(
            self._context.group.name,
            pack.notice,
            self._cohort.select_ids(pack.rows),
            pack.turns,
            pack.started_s,
            end,
            action=act if acted else None,
            sim_times_ns=self.wakes.find_times(pack) if self.wakes is not None and pack.notice.is_wake else None,
            values=values if acted else None,
            revisions=revisions,
        )

    def stop(self) -> None:
        """Let nobody decide any more who sits in an agent's place."""
        for task in self._sitting:
            task.cancel()

    async def _break_off(self, pack: Thinkers, keys: list[str], defect: Exception) -> None:
        """End turns as `error` that something outside agents' code has ended, and tell the gate if that can be."""
        end = end_by_incident(
            self._context.incidents, f"turns of {len(keys)} agents of {self._context.group.name}", defect
        )
        await self._send(pack, keys, [make_no_answer(end)] * len(keys), end)

    def _part_with(
        self, pack: Thinkers, keys: list[str], values: list[Any], failures: Failures, apart: set[int]
    ) -> None:
        """Muted agents get their end; who is seated goes on apart, and its place into `apart`."""
        presence = self._context.presence
        for place, key in enumerate(keys):
            if key in presence.muted:
                failures[place] = MUTED
            elif presence.is_seated(key):
                sitting = Sitting(self._context, pack.select([place]), key, values[place], failures.get(place, OK))
                task = self._context.tasks.start(self._sit(sitting), f"seat of {key}")
                self._sitting.add(task)
                task.add_done_callback(self._sitting.discard)
                apart.add(place)

    async def _sit(self, sitting: Sitting) -> None:
        """One turn of an agent in whose place a person sits."""
        try:
            end, value = await sitting.decide()
        except asyncio.CancelledError:
            await self.close(sitting.pack, STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: a person's decision ends no other turn
            await self._break_off(sitting.pack, [sitting.key], error)
            return
        told = value if end.status.acted else make_no_answer(end)
        await self._send(sitting.pack, [sitting.key], [told], end)
        sitting.tell_end(end)

    async def _send(self, pack: Thinkers, keys: list[str], values: list[Any], end: TurnEnd) -> None:
        """Put one frame on its way; what comes of it is another task's, so that frames overlap."""
        ask = pack.notice.ask
        if ask is None:
            await self._close_and_release(pack, end)
            return
        try:
            outbox, notice = self._context.outbox, pack.notice
            answer = await outbox.submit(ask.path, ask.generation, notice.revision, keys, values, notice.event.id)
        except EcumeneError as error:
            await self._close_and_release(pack, TurnEnd(*judge_failure(error)))
            return
        except Exception as error:  # noqa: BLE001 - the turn edge: what no frame can hold ends the turns of one
            where = f"a frame of {len(keys)} agents of {self._context.group.name}"
            await self._close_and_release(pack, end_by_incident(self._context.incidents, where, error))
            return
        self._context.tasks.start(self._settle(pack, keys, values, end, ask, answer), "column settle")

    async def _settle(
        self,
        pack: Thinkers,
        keys: list[str],
        values: list[Any],
        end: TurnEnd,
        ask: Ask,
        answer: asyncio.Future[FrameResult],
    ) -> None:
        """Record what became of a frame, and free its agents for their next notice."""
        try:
            settled = await self._context.outbox.settle(answer)
        except asyncio.CancelledError:
            # The ops may have taken effect; whoever takes these turns again then adopts them.
            await self.close(pack, UNANSWERED)
            raise
        except EcumeneError as error:
            await self._close_and_release(pack, TurnEnd(*judge_failure(error)))
            return
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            where = f"the answer of {len(keys)} agents of {self._context.group.name}"
            await self._close_and_release(pack, end_by_incident(self._context.incidents, where, error))
            return
        if not settled.others:
            await self.close(pack, end, values, settled.revisions)
        else:
            await self._close_apart(pack, keys, values, end, ask, settled)
        self._release(pack)

    async def _close_apart(
        self, pack: Thinkers, keys: list[str], values: list[Any], end: TurnEnd, ask: Ask, settled: Settled
    ) -> None:
        """Record a frame of which some ops failed, or met the outcome of an earlier turn."""
        plain = [place for place in range(len(keys)) if place not in settled.others]
        await self.close(pack.select(plain), end, [values[place] for place in plain], settled.revisions[plain])
        for place, outcome in settled.others.items():
            ended, value = await self._judge(ask, keys[place], values[place], end, outcome)
            known = None if outcome.revision is None else np.array([outcome.revision])
            await self.close(pack.select([place]), ended, [value], known)

    async def _judge(self, ask: Ask, key: str, value: Any, end: TurnEnd, outcome: Outcome) -> tuple[TurnEnd, Any]:
        """How a turn ended whose op was not simply done, and the value that stands for it."""
        if outcome.error is not None:
            failed = TurnEnd(*judge_failure(outcome.error, is_taken_over=self._context.is_taken_over))
            return (failed if end.status.acted else TurnEnd(end.status, f"{end.reason}; {failed.reason}")), value
        if outcome.duplicate:
            status, stored = await read_adopted(self._context.world, ask.path, key)
            return TurnEnd(status, ADOPTED), stored
        return end, value

    async def _close_and_release(self, pack: Thinkers, end: TurnEnd) -> None:
        await self.close(pack, end)
        self._release(pack)

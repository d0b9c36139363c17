"""What the earlier owners of a part did behind its cursor: read from the world's log, once, when it is taken over.

Nobody but its owner writes for a part, so what stands in the log up to the new owner's term is all there will ever be
of the others. A turn that stands there was taken: it is recorded as it was, no model is asked and nothing is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ecumene.client import EventBatch, EventFilter, EventType, Value, World

from agent_runtime.model.wakes import WakesUnreadableError, read_wakes
from agent_runtime.ownership.agent_states import AgentState, StateUnreadableError

logger = logging.getLogger("ecumene.runtime")

_WRITES = (EventType.ENTRY_SET, EventType.ENTRY_INCREMENTED, EventType.ENTRY_APPENDED)


class Effect(NamedTuple):
    """One change that a turn made."""

    path: str
    key: str
    kind: int
    value: Value
    revision: int


class DoneTurn(NamedTuple):
    """A turn that was taken: what it changed, and the agent after it, where that is kept."""

    effects: tuple[Effect, ...]
    state: AgentState | None

    def find_report(self, path: str, key: str) -> Effect | None:
        """What it reported there, if it did."""
        return next((effect for effect in self.effects if (effect.path, effect.key) == (path, key)), None)


class History:
    """Turns that were taken, by the revision of their event and by agent."""

    def __init__(
        self,
        world: World,
        *,
        after: int,
        term: int,
        agents_path: str,
        wakes_path: str = "",
        list_agents: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Of the revisions behind `after`, before `term`; states are kept at `agents_path`, wakes at `wakes_path`.

        `list_agents`: whose turns are kept; the log tells everybody's. None = all.
        """
        self._world = world
        self._list_agents = list_agents
        self._after = after
        self._agents_path = agents_path
        self._wakes_path = wakes_path
        self._woken: dict[int, dict[str, int]] = {}
        self._done: dict[int, dict[str, DoneTurn]] = {}
        self.term = term
        self.is_read = False
        self.is_over = False
        """Whether all of its turns have been asked for: what is refused from now on was not decided before."""

    async def read(self) -> None:
        """Read the log. Raises EcumeneError, RevisionCompactedError if it does not reach back so far."""
        ours = None if self._list_agents is None else frozenset(self._list_agents())
        # The taking of the part is such a write, too: the watch surely comes to it.
        watch = self._world.watch_frames(EventFilter(types=_WRITES), from_revision=self._after + 1)
        async with watch:
            async for batch in watch:
                self._take(batch, ours)
                if batch.revisions[-1] >= self.term:
                    break
        self.is_read = True

    def find(self, agent: str, revision: int) -> DoneTurn | None:
        """The turn that the event of `revision` began; None if it was not taken."""
        return self._done.get(revision, {}).get(agent)

    def find_all(self, agents: Sequence[str], revision: int) -> Mapping[int, DoneTurn]:
        """The turns of those who took theirs, by their place."""
        done = self._done.get(revision)
        if not done:
            return {}
        return {place: done[agent] for place, agent in enumerate(agents) if agent in done}

    def find_woken(self, revision: int) -> Mapping[str, int]:
        """Whom a timer's event has woken, with the time of each; of them those who took their turn, or began it."""
        return self._woken.get(revision, {})

    def forget(self, through: int) -> None:
        """Turns up to `through` are not asked for any more."""
        for known in (self._done, self._woken):
            for revision in [revision for revision in known if revision <= through]:
                del known[revision]
        self.is_over = through >= self.term

    def _take(self, batch: EventBatch, ours: Collection[str] | None) -> None:
        columns = (batch.paths, batch.keys, batch.types, batch.values, batch.revisions)
        marks = f"{batch.world}/"
        rows = zip(batch.producers, batch.producer_seqs, batch.causes, *columns, strict=True)
        for producer, seq, cause, path, key, kind, value, revision in rows:
            if path == self._agents_path:
                if ours is None or key in ours:
                    self._take_state(key, value, revision)
            elif path == self._wakes_path:
                event = cause.removeprefix(marks).partition(".")[0]
                if event.isdecimal() and (ours is None or key in ours):
                    self._take_wakes(key, value, int(event))
            elif cause.startswith(marks) and (ours is None or producer in ours):
                self._add(producer, seq, (Effect(path, key, kind, value, revision),), None)

    def _take_state(self, agent: str, value: Value, revision: int) -> None:
        try:
            state = AgentState.from_document(value, revision)
        except StateUnreadableError as error:
            logger.warning("passed over what stands for agent %s: %s", agent, error)
            return
        self._add(agent, state.revision, (), state)

    def _take_wakes(self, agent: str, value: Value, event: int) -> None:
        """What a turn asked for, in answer to an event."""
        try:
            _, woke_ns = read_wakes(agent, value)
        except WakesUnreadableError as error:
            logger.warning("passed over: %s", error)
            return
        self._add(agent, event, (), None)
        if woke_ns is not None:
            self._woken.setdefault(event, {})[agent] = woke_ns

    def _add(self, agent: str, event: int, effects: tuple[Effect, ...], state: Any) -> None:
        turns = self._done.setdefault(event, {})
        known = turns.get(agent)
        turns[agent] = (
            DoneTurn(effects, state)
            if known is None
            else DoneTurn(known.effects + effects, state if known.state is None else known.state)
        )

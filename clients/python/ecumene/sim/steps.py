"""Conducts a model step by step: all agents see the same, each decides, and the next step follows from what they said.

    told ──► entry `step` wakes the agents ──► one report each ──► gate.opened ──► reports, in the agents' order

What the model's state is, and what becomes of the reports, is the model's own; here is only that every agent is asked
once a step, on the same ground, however many workers host them. So the outcome follows from the seed alone, which the
digest of a run shows: of two runs with equal digests everything that was told and said is equal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self

from ecumene.client.errors import EcumeneError
from ecumene.client.model import Entry, EventType, Gate, Json, Value
from ecumene.client.reasons import EntryNotFoundError, PreconditionFailedError
from ecumene.client.records import read_report
from ecumene.client.watches import Watch
from ecumene.client.world import World

STEP_KEY = "step"
"""Entry of the run's environment that wakes its agents: the step that is open, or was the last."""
REPORTS = "reports"
"""Environment below it: one entry an agent, what it said last."""
GATE = "step"
STEP_TIMEOUT_S = 120.0
OWN_NAMES = frozenset({"round", REPORTS, "generation", "seed", "digest"})


class StepLateError(EcumeneError):
    """Not all agents have reported in time; the step stays open."""

    def __init__(self, path: str, step: int, missing: Sequence[str]) -> None:
        self.path = path
        self.step = step
        self.missing = missing
        shown = ", ".join(missing[:5]) + ("…" if len(missing) > 5 else "")
        super().__init__(f"step {step} of {path}: {len(missing)} agents have not reported: {shown}")


class StepTakenError(EcumeneError):
    """Somebody else conducts this run, too, or the step was begun by a call whose answer was lost; see `take_up`."""

    def __init__(self, path: str, step: int) -> None:
        self.path = path
        self.step = step
        super().__init__(f"step {step} of {path} was begun already: take it up, unless somebody else conducts this run")


class AgentsFailedError(EcumeneError):
    """Turns ended without a report. A model whose agents are missing is another model, so nothing is made up for them.

    `statuses`: how the turn of each ended.
    """

    def __init__(self, path: str, step: int, statuses: Mapping[str, str]) -> None:
        self.path = path
        self.step = step
        self.statuses = statuses
        first, status = next(iter(statuses.items()))
        super().__init__(f"step {step} of {path}: {len(statuses)} agents have no report, such as {first} ({status})")


class Steps:
    """One run of a stepwise model, in an environment of its own. An async context manager.

    Agents are woken by the entry `step` of the environment (a wake rule with its path and `"key": "step"`). Its value
    is a document of what `take` is given, of `round` (the step's number, from 1), `seed`, and of where reports go.
    """

    def __init__(
        self, world: World, path: str, agents: Sequence[str], *, seed: int, timeout_s: float = STEP_TIMEOUT_S
    ) -> None:
        """`agents`: ids of all who are asked, each once. `seed`: from which all chance of the run follows, the agents'
        and the model's. A step that takes longer than `timeout_s` is late."""
        if not agents or len(set(agents)) != len(agents):
            raise ValueError("agents: one id or more, each once")
        self.world = world
        self.path = path
        self.agents = tuple(agents)
        self.seed = seed
        self.number = 0
        """Of the last step that was begun; 0 = none yet."""
        self._run = world.environment(path)
        self._reports = self._run.child(REPORTS)
        self._timeout_s = timeout_s
        self._digest = ""
        self._generation = 0
        self._version = 0
        """Of the entry of the last step: whoever begins the next one must have seen it."""
        self._began = 0
        """Revision before the step's reports: what was said before is no report of it."""
        self._stack = AsyncExitStack()
        self._opened: Watch | None = None

    async def __aenter__(self) -> Self:
        """Raises EcumeneError, such as EnvironmentNotFoundError if the path's parent does not exist."""
        await self._run.register(if_absent=True)
        await self._reports.register(gates=[Gate(GATE)], if_absent=True)
        self._generation = (await self._reports.aggregates()).gates[GATE].generation
        last = await self._read_last()
        self._version = 0 if last is None else last.version
        # From before the first step on, so that no gate can be missed.
        self._opened = self._reports.watch(types=[EventType.GATE_OPENED])
        self._stack.push_async_callback(self._opened.aclose)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def digest(self) -> str:
        """Of all that was told and said so far, in order."""
        return self._digest

    async def take(self, told: Mapping[str, Json]) -> dict[str, Value]:
        """One step: tell all agents the same, and wait for what each says; in the order of `agents`.

        That they are told and that the step counts is one revision. It does not count when it cannot be told, and this
        may be asked again; if an error leaves open whether it was (`executed`), `take_up` goes on with what was.

        Raises:
            ValueError: `told` has a name that a step has itself (OWN_NAMES).
            InvalidValueError, LimitExceededError: it is no document, or too large.
            StepTakenError: another step was begun since.
            StepLateError: not all have reported in time.
            AgentsFailedError: turns ended without a report.
            EcumeneError: the world refused, or could not be reached for too long.
        """
        if taken := OWN_NAMES & told.keys():
            raise ValueError(f"a step itself tells {', '.join(sorted(taken))}")
        number, generation = self.number + 1, self._generation + 1
        step: dict[str, Json] = {
            **told,
            "round": number,
            "seed": self.seed,
            "digest": self._digest,
            REPORTS: self._reports.path,
            "generation": generation,
        }
        begin = self.world.transaction()
        begin.begin_generation(self._reports.path, GATE, count_target=len(self.agents))
        begin.set(self.path, STEP_KEY, step, expect_version=self._version)
        try:
            begun = await begin.commit()
        except PreconditionFailedError as error:
            raise StepTakenError(self.path, number) from error
        gate, entry = begun.written
        self.number, self._generation = number, gate.sequence
        self._version, self._began = entry.version, begun.revision
        if gate.sequence != generation:
            raise StepTakenError(self.path, number)
        return await self._finish(told)

    async def take_up(self) -> tuple[dict[str, Json], dict[str, Value]] | None:
        """Go on with a run whose conductor is gone: what its last step told, and the reports on it.

        Waits for those that are missing. None: no step was begun. Raises as `take` does.
        """
        entry = await self._read_last()
        if entry is None:
            return None
        step: Any = entry.value
        self.number, self.seed, self._digest = step["round"], step["seed"], step["digest"]
        told = {name: value for name, value in step.items() if name not in OWN_NAMES}
        gate = (await self._reports.aggregates()).gates[GATE]
        # The next generation may have begun, without anybody having been told: then the step told last is over.
        is_over = gate.opened or gate.generation > step["generation"]
        self._generation, self._version, self._began = gate.generation, entry.version, entry.modify_revision
        return told, await self._finish(told, is_over=is_over)

    async def _read_last(self) -> Entry | None:
        """The entry of the step that was begun last; None: none was."""
        try:
            return await self._run.get(STEP_KEY)
        except EntryNotFoundError:
            return None

    async def _finish(self, told: Mapping[str, Json], *, is_over: bool = False) -> dict[str, Value]:
        if not is_over:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._wait_for_gate()
            except TimeoutError:
                raise StepLateError(self.path, self.number, await self._list_missing()) from None
        said = {entry.key: entry.value async for entry in self._reports.entries() if entry.value_revision > self._began}
        if missing := [agent for agent in self.agents if agent not in said]:  # somebody else's report was counted
            raise StepLateError(self.path, self.number, missing)
        read = {agent: read_report(said[agent]) for agent in self.agents}
        failed = {agent: status.value for agent, (status, is_answer) in read.items() if not is_answer}
        if failed:
            raise AgentsFailedError(self.path, self.number, failed)
        reports = {agent: said[agent] for agent in self.agents}
        line = json.dumps([self._digest, self.number, told, list(reports.values())], sort_keys=True, default=bytes.hex)
        self._digest = blake2b(line.encode(), digest_size=16).hexdigest()
        return reports

    async def _wait_for_gate(self) -> None:
        assert self._opened is not None, "enter the context first"
        async for event in self._opened:
            value: Any = event.value
            if value["generation"] == self._generation:
                return

    async def _list_missing(self) -> list[str]:
        here = {entry.key async for entry in self._reports.entries() if entry.value_revision > self._began}
        return [agent for agent in self.agents if agent not in here]

"""Reaches into a run between its rounds, each intervention once, however often the run is killed and gone on with.

Each leaves a note in the world, beside those of interventions from outside: in the same revision as the change of an
entry, and behind what can be done twice without harm otherwise. What has its note is not done again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Sequence
from typing import Any

import numpy as np

from ecumene.client.model import Json
from ecumene.client.reasons import EntryNotFoundError, EnvironmentNotFoundError
from ecumene.client.runtime_model import Intervention
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.sim.asking.intervention_records import describe_intervention, write_interventions
from ecumene.sim.asking.lives import ACTOR, RunLife, count_agents
from ecumene.sim.asking.plans import choose_rows
from ecumene.sim.asking.reaching import reach_agents
from ecumene.sim.populations.population import Population
from ecumene.sim.rounds.plans import GamePlan, RoundsPlan
from ecumene.sim.rounds.results import RoundResult, read_number
from ecumene.sim.specs.game import GAME_PATH
from ecumene.sim.specs.interventions import ConditionSpec, InterventionSpec, TellSpec, WhomSpec
from ecumene.sim.worlds.places import make_place

NOTE_PREFIX = "spec."


class Intervener:
    """For one life of a run."""

    def __init__(self, life: RunLife, interventions: Sequence[InterventionSpec]) -> None:
        self._life = life
        self._interventions = interventions
        self._notes = life.notes
        self._done: set[str] = set()

    async def settle(self, plan: RoundsPlan, *, is_resumed: bool) -> RoundsPlan:
        """Know what was done in earlier lives of the run; the plan with the rules that hold since then.

        Rules that were changed, but not noted any more, are as before: they will be changed again. Raises EcumeneError.
        """
        if not self._interventions:
            return plan
        notes = await self._read_notes()
        # A kill may have come between the last note and what a report reads of it.
        await asyncio.to_thread(write_interventions, self._life.directory, notes)
        self._done = {str(note["name"]) for note in notes}
        if not isinstance(plan, GamePlan):
            return plan
        changed = [note["what"] for note in notes if note["deed"] == "rules"]
        rules: dict[str, Any] = {"ratio": plan.ratio, "offset": plan.offset}
        for change in changed:
            rules |= change
        if is_resumed and any(one.rules is not None for one in self._interventions):
            try:
                await self._life.world.environment(GAME_PATH).change(merge_config=rules, actor=ACTOR)
            except EnvironmentNotFoundError:
                pass  # it was killed before there was a game
        return dataclasses.replace(plan, **rules)

    async def before_round(self, number: int) -> None:
        """Do what is to be done before a round. Raises EcumeneError, OSError."""
        for one in self._interventions:
            if one.before_round == number:
                await self._do(one, f"before round {number}", "", number)

    async def after_round(self, number: int, result: RoundResult) -> None:
        """Do what is to be done after a round, or because of what is so by now. Raises EcumeneError, OSError."""
        for one in self._interventions:
            if one.after_round == number:
                await self._do(one, f"after round {number}", "", number + 1)
            elif one.when is not None and one.name not in self._done:
                figure = await self._measure(one.when, result)
                if figure is not None and one.when.holds(figure):
                    await self._do(one, f"after round {number}", f"{one.when}: {figure:g}", number + 1)

    async def _do(self, one: InterventionSpec, moment: str, cause: str, from_round: int) -> None:
        if one.name in self._done:
            return
        what, did = self._describe(one)
        note: dict[str, Json] = {
            "kind": ACTOR,
            "name": one.name,
            "deed": one.deed,
            "moment": moment,
            "from_round": from_round,
            "cause": cause,
            "what": what,
            "did": did,
        }
        key, because = f"{NOTE_PREFIX}{one.name}", f"intervention {one.name}"
        entry = one.set or one.delete
        if entry is not None:
            await make_place(self._life.world, entry.path)
            transaction = self._life.world.transaction()
            if one.set is not None:
                transaction.set(entry.path, entry.key, one.set.value)
            else:
                transaction.delete(entry.path, entry.key, if_present=True)
            transaction.create(self._notes.path, key, note)
            await transaction.commit(actor=ACTOR, cause=because)
        else:
            if one.rules is not None:
                game = self._life.world.environment(GAME_PATH)
                await game.change(merge_config=what, actor=ACTOR, cause=because)
            elif one.whom is not None:
                await self._reach(choose_some(self._life.population, one.whom, self._life.seed, one.name), one)
            await self._notes.create(key, note, if_absent=True, actor=ACTOR, cause=because)
        self._done.add(one.name)
        await asyncio.to_thread(write_interventions, self._life.directory, await self._read_notes())
        self._life.tell(describe_intervention(note))

    def _describe(self, one: InterventionSpec) -> tuple[dict[str, Json], str]:
        """What it does, as JSON and in words."""
        if one.set is not None:
            text = json.dumps(one.set.value, ensure_ascii=False)
            return one.set.model_dump(mode="json"), f"{one.set.path} {one.set.key} is set to {text[:100]}"
        if one.delete is not None:
            return one.delete.model_dump(mode="json"), f"{one.delete.path} {one.delete.key} is deleted"
        if one.rules is not None:
            rules = {name: float(value) for name, value in one.rules.model_dump(exclude_none=True).items()}
            told = ", ".join(f"{name} {value:g}" for name, value in rules.items())
            return dict(rules), f"the game goes on with {told}"
        assert one.whom is not None
        count = len(choose_some(self._life.population, one.whom, self._life.seed, one.name))
        agents = count_agents(count)
        if one.tell is not None:
            return one.tell.model_dump(mode="json"), f"{agents} {'is' if count == 1 else 'are'} told: {one.tell.text}"
        told = f"{agents} {'takes' if count == 1 else 'take'} "
        return one.whom.model_dump(mode="json"), told + ("no turns" if one.pause is not None else "turns again")

    async def _measure(self, condition: ConditionSpec, result: RoundResult) -> float | None:
        """The figure that a condition is about; None = there is none now."""
        if condition.entry is None:
            assert condition.figure is not None
            return result.find_figure(condition.figure)
        figure: Any
        try:
            figure = await self._life.world.environment(condition.entry.path).value(condition.entry.key)
        except (EntryNotFoundError, EnvironmentNotFoundError):
            return None
        return read_number(figure)

    async def _reach(self, agents: Sequence[str], one: InterventionSpec) -> None:
        """Mute, unmute or tell each; doing it again changes nothing."""

        def reach(node: RuntimeNode, agent: str) -> Awaitable[Intervention]:
            signed = {"actor": ACTOR, "comment": one.name}
            if one.tell is not None:
                return node.tell(self._life.run, agent, one.tell.text, **signed)
            return node.mute(self._life.run, agent, muted=one.pause is not None, **signed)

        await reach_agents(self._life.world, self._life.run, agents, reach)

    async def _read_notes(self) -> list[dict[str, Any]]:
        """Those of the spec's own interventions, in the order in which they were done."""
        try:
            entries = [one async for one in self._notes.entries() if one.key.startswith(NOTE_PREFIX)]
        except EnvironmentNotFoundError:
            return []
        ordered = sorted(entries, key=lambda entry: entry.create_revision)
        return [{**one.value, "revision": one.create_revision} for one in ordered if isinstance(one.value, dict)]


def choose_some(population: Population, whom: WhomSpec | TellSpec, seed: int, name: str) -> list[str]:
    """The agents that an intervention concerns, in the order of the population."""
    if whom.agents:
        return list(whom.agents)
    rows = choose_rows(population, whom.groups, whom.sample, seed, f"intervention/{name}")
    names: list[str] = population.name_rows(np.asarray(rows)).to_pylist()
    return names

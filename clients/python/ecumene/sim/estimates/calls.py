"""How many questions a spec asks of each of its models, if nothing fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ecumene.sim.specs.population import PROMPTED, GroupSpec
from ecumene.sim.specs.spec import RunSpec


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Of one model.

    Attributes:
        by_group: group -> turns a round that ask it; of a mix, and of groups drawn by chance, as many as expected.
        calls_a_turn: 2 with `two_call`.
    """

    by_group: Mapping[str, float]
    calls_a_turn: int

    @property
    def turns_a_round(self) -> float:
        """Turns of a round that ask it."""
        return sum(self.by_group.values())

    @property
    def a_round(self) -> float:
        """Calls of a round."""
        return self.turns_a_round * self.calls_a_turn


def plan_calls(spec: RunSpec) -> dict[str, ModelCalls]:
    """Model -> its calls. Classes of one's own that have a model are counted as one question a turn."""
    sizes = count_groups(spec)
    turns: dict[str, dict[str, float]] = {}
    for group in spec.population.groups:
        for name, count in divide_by_model(spec, group, sizes[group.name]):
            turns.setdefault(name, {})[group.name] = count
    two = {name: 2 if model.two_call else 1 for name, model in spec.list_models().items()}
    return {name: ModelCalls(by_group, two[name]) for name, by_group in turns.items()}


def divide_by_model(spec: RunSpec, group: GroupSpec, agents: float) -> Iterator[tuple[str, float]]:
    """The models that some agents of a group ask, each with how many of them do, as expected."""
    asked = spec.list_asked(group)
    weights = {name: group.models[name] for name in asked} if group.models else dict.fromkeys(asked, 1.0)
    total = sum(weights.values())
    for name, weight in weights.items():
        if weight and agents:
            yield name, agents * weight / total


def count_groups(spec: RunSpec) -> dict[str, float]:
    """Group -> its agents; of shares, as many as expected."""
    population = spec.population
    total = sum(group.share or 0 for group in population.groups)
    return {
        group.name: float(group.count)
        if group.count is not None
        else float((group.share or 0) * (population.size or 0) / (total or 1))
        for group in population.groups
    }


def list_unmeasured(spec: RunSpec) -> list[str]:
    """Groups that ask and whose prompts only their own class knows."""
    return [group.name for group in spec.population.groups if spec.list_asked(group) and group.agent != PROMPTED]

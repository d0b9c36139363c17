"""What a spec's numbers cannot be together, and what they are hardly meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ecumene.sim.checks.surroundings import Told, place_models
from ecumene.sim.estimates.askings import plan_asked
from ecumene.sim.estimates.calls import plan_calls
from ecumene.sim.estimates.times import list_late
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.specs.yaml_reading import Place

MICRODOLLARS = 1_000_000


def list_impossible(spec: RunSpec, prompts: Mapping[str, tuple[float, float]]) -> Told:
    """Budgets that cannot pay the prompts of one round; `prompts`: group -> tokens of one in the first round, later."""
    tokens = microdollars = 0.0
    for name, calls in plan_calls(spec).items():
        model = spec.list_models()[name]
        asked = sum(by_group * prompts[group][0] for group, by_group in calls.by_group.items() if group in prompts)
        cost = asked * model.price.prompt / MICRODOLLARS
        tokens, microdollars = tokens + asked, microdollars + cost
        place = ("models", name) if spec.models else ("model",)
        yield from _compare(place, model.tokens_max, model.microdollars_max, asked, cost)
    yield from _compare(("budget",), spec.budget.tokens_max, spec.budget.microdollars_max, tokens, microdollars)


def list_doubts(spec: RunSpec) -> Told:
    """Deadlines that are shorter than models take, by their latency, limits of rate and questions in flight."""
    for name, needed_s in list_late(spec):
        text = f"a round of model {name} takes about {needed_s:,.3g} s: turns that come later are missing"
        yield ("game" if spec.experiment is None else "experiment", "deadline_s"), text
    asked = {*plan_calls(spec), *(one.model for moment in plan_asked(spec) for one in moment)}
    for place, _ in place_models(spec):
        if place[0] == "models" and place[1] not in asked:
            yield place, "no group asks this model"


def _compare(
    place: Place, tokens_max: int | None, microdollars_max: int | None, tokens: float, microdollars: float
) -> Iterator[tuple[Place, str]]:
    for field, maximum, needed in (
        ("tokens_max", tokens_max, tokens),
        ("microdollars_max", microdollars_max, microdollars),
    ):
        if maximum is not None and maximum < needed:
            unit = field.removesuffix("_max")
            yield (*place, field), f"{maximum:,} {unit} do not pay one round, whose prompts take about {needed:,.0f}"

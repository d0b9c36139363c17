"""What of a spec's world, experiment and groups does not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ecumene.client.durations import show_duration
from ecumene.sim.specs.game import GAME_FIGURES, GAME_KIND, GAME_PATH
from ecumene.sim.specs.interventions import BOOKS_PATH, ConditionSpec
from ecumene.sim.specs.world import PARTICIPANTS, EnvironmentSpec

if TYPE_CHECKING:
    from ecumene.sim.specs.population import GroupSpec
    from ecumene.sim.specs.spec import RunSpec

Problems = Iterator[tuple[tuple[str | int, ...], str]]


def list_world_problems(spec: RunSpec) -> Problems:
    """Place in the spec and what is wrong there."""
    yield from _list_experiment_problems(spec)
    for place, group in enumerate(spec.population.groups):
        for field, text in _list_group_problems(spec, group):
            yield ("population", "groups", place, field), text
    for place, environment in enumerate(spec.world.environments if spec.world else ()):
        for fields, text in _list_environment_problems(spec, environment):
            yield ("world", "environments", place, *fields), text


def _list_experiment_problems(spec: RunSpec) -> Problems:
    experiment, world = spec.experiment, spec.world
    if experiment is None:
        yield from _list_strange_figures(spec)
        return
    if "game" in spec.model_fields_set:
        yield ("game",), "give game or experiment, not both: the guess game is an experiment that is ready"
    if spec.references:
        yield ("references",), "are compared with the numbers of the guess game, which is not played here"
    for place, one in enumerate(spec.interventions):
        if one.rules is not None:
            yield ("interventions", place, "rules"), "are those of the guess game; set an entry that the agents look at"
    named = world is not None and world.name is not None
    field = "environment" if experiment.environment is not None else "clock"
    path = experiment.environment or experiment.clock or ""
    found = None if world is None else world.find(path)
    if found is None:
        # What a shared world holds is not known before it is there.
        if not named:
            there = [one.path for one in world.environments] if world is not None else []
            told = f"there are {', '.join(there)}" if there else "world.environments names none"
            yield ("experiment", field), f"no environment is at {path}; {told}"
        return
    if field == "environment" and found.kind is None:
        yield ("experiment", field), f"{path} has no kind, so nobody opens rounds there"
    if field == "clock":
        if found.clock is None or found.clock.mode != "event_driven":
            yield ("experiment", field), f"{path} has no event-driven clock; give it clock: {{}}"
        elif experiment.until is not None and experiment.until <= found.clock.start:
            start = show_duration(found.clock.start)
            yield ("experiment", "until"), f"is not after {start}, where the clock begins"


def _list_strange_figures(spec: RunSpec) -> Problems:
    """Conditions about figures that the guess game has not."""
    asked: list[tuple[tuple[str | int, ...], ConditionSpec | None]]
    asked = [(("interventions", place, "when", "figure"), one.when) for place, one in enumerate(spec.interventions)]
    if spec.stop is not None:
        asked.append((("stop", "when", "figure"), spec.stop.when))
    for where, condition in asked:
        figure = None if condition is None else condition.figure
        if figure is not None and figure not in GAME_FIGURES:
            yield where, f"the guess game has no figure {figure!r}; there are {', '.join(GAME_FIGURES)}"


def _list_group_problems(spec: RunSpec, group: GroupSpec) -> Iterator[tuple[str, str]]:
    experiment = spec.experiment
    if experiment is not None and group.is_ready and _find_kind(spec) not in (GAME_KIND, None):
        yield "agent", f"{group.agent} plays the guess game; here it takes a class of your own, or prompted-agent"
    if experiment is None and group.agent == "prompted-agent":
        yield "agent", "prompted-agent is for an experiment of one's own; who plays the guess game is prompted"
    clock = spec.find_clock_path(group)
    if group.first_wake is not None and not clock:
        yield "first_wake", "needs a clock: name an environment that has one, or lives by one, as the group's clock"
    if not clock:
        return
    owner = spec.world.find_clock(clock) if spec.world is not None else None
    if owner is None or owner.clock is None:
        if spec.world is None or spec.world.name is None:
            yield "clock", f"neither {clock} nor any environment above it has a clock"
    elif group.first_wake is not None and group.first_wake < owner.clock.start:
        yield "first_wake", f"is before {show_duration(owner.clock.start)}, where the clock of {owner.path} begins"


def _find_kind(spec: RunSpec) -> str | None:
    """Of the environment whose rounds are played; "" = a plain one, or a clock's; None = nobody knows."""
    experiment = spec.experiment
    if experiment is None or experiment.environment is None:
        return ""
    found = spec.world.find(experiment.environment) if spec.world is not None else None
    return None if found is None else found.kind or ""


def _list_environment_problems(
    spec: RunSpec, environment: EnvironmentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    population, path = spec.population, environment.path
    if path == BOOKS_PATH or path.startswith(f"{BOOKS_PATH}/"):
        yield ("path",), f"what is below {BOOKS_PATH} is kept by the runtimes themselves"
    if spec.experiment is None and (path == GAME_PATH or path.startswith(f"{GAME_PATH}/")):
        yield ("path",), f"{GAME_PATH} is where the guess game is played; with an experiment it is yours"
    waits = environment.clock is not None and environment.clock.mode == "event_driven"
    if waits and spec.world is not None and spec.world.find(f"{path}/{PARTICIPANTS}") is not None:
        yield ("clock",), f"{path}/{PARTICIPANTS} is where those are who take part in this clock"
    network = environment.space.network if environment.space is not None else None
    if network is not None and network not in population.networks:
        told = (
            f"there are {', '.join(population.networks)}" if population.networks else "population.networks names none"
        )
        yield ("space", "network"), f"no network is called {network!r}; {told}"
    each = environment.each_agent
    if each is None:
        return
    groups = [group.name for group in population.groups]
    if unknown := [name for name in each.groups if name not in groups]:
        yield ("each_agent", "groups"), f"no group is called {unknown[0]!r}; there are {', '.join(groups)}"
    known = population.list_attributes()
    if each.attribute is not None and each.attribute not in known:
        told = f"there are {', '.join(known)}" if known else "population.attributes names none"
        yield ("each_agent", "attribute"), f"no attribute is called {each.attribute!r}; {told}"
    if each.position == "random" and environment.space is not None and environment.space.network is not None:
        yield ("each_agent", "position"), "in a network an agent is on its own node: give position: node"

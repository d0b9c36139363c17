"""The spec of a run: one YAML file, or the same object built in Python.

What is wrong with a spec is said by field, all at once, before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from ecumene.sim.specs.all_problems import find_problems
from ecumene.sim.specs.asking import AfterRounds, AskingSpec, InterviewSpec, SurveySpec
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.experiment import ExperimentSpec
from ecumene.sim.specs.game import GameSpec
from ecumene.sim.specs.interventions import InterventionSpec
from ecumene.sim.specs.models import BudgetSpec, ModelSpec
from ecumene.sim.specs.population import PROMPTED, PROMPTED_AGENT, GroupSpec, PopulationSpec
from ecumene.sim.specs.probe import ProbeSpec
from ecumene.sim.specs.references import ReferenceSpec
from ecumene.sim.specs.section import FilePath, Section
from ecumene.sim.specs.stop import StopSpec
from ecumene.sim.specs.sweep import SweepSpec
from ecumene.sim.specs.world import WorldField
from ecumene.sim.specs.world_problems import list_world_problems
from ecumene.sim.specs.yaml_reading import Lines, YamlError, read_yaml

SPEC_BYTES_MAX = 4 * 1024 * 1024
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class RecordingSpec(Section):
    """What is written, and where.

    Attributes:
        directory: holds a folder for each run.
        bodies: whether messages and answers of model calls are recorded too.
    """

    directory: FilePath = Path("runs")
    bodies: bool = False


class RunSpec(Section):
    """One run.

    Attributes:
        name: of the experiment; the run's id begins with it.
        seed: everything random follows from it.
        world: what the world consists of; or the name of one that others share. None = an empty one of the run's own,
            with `--nodes` that of the nodes.
        population: who plays.
        game: what is played; or
        experiment: what is done in a world of one's own.
        model: what prompted agents ask; or give models.
        models: several, by a name by which groups choose.
        budget: what all of them may cost together.
        recording: what is kept.
        stop: what ends the run before its last round.
        sweep: several runs instead of one.
        surveys: typed questions to agents before, between and after the rounds.
        interviews: open questions to some agents, likewise.
        interventions: what is done to the world or to agents between rounds.
        probe: what `ecumene probe` asks.
        references: figures of others that reports show beside the run.
    """

    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    world: WorldField = None
    population: PopulationSpec
    game: GameSpec = GameSpec()
    experiment: ExperimentSpec | None = None
    model: ModelSpec | None = None
    models: Annotated[dict[Name, ModelSpec], Field(max_length=100)] = Field(default_factory=dict)
    budget: BudgetSpec = BudgetSpec()
    recording: RecordingSpec = RecordingSpec()
    stop: StopSpec | None = None
    sweep: SweepSpec | None = None
    surveys: Annotated[tuple[SurveySpec, ...], Field(max_length=100)] = ()
    interviews: Annotated[tuple[InterviewSpec, ...], Field(max_length=100)] = ()
    interventions: Annotated[tuple[InterventionSpec, ...], Field(max_length=100)] = ()
    probe: ProbeSpec = ProbeSpec()
    references: Annotated[tuple[ReferenceSpec, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if self.model is not None and self.models:
            raise ValueError("give model or models, not both")
        if problems := [
            *self._list_group_problems(),
            *self._list_budget_problems(),
            *self._list_asking_problems(),
            *self._list_deed_problems(),
            *(_describe_problem(text, where, None) for where, text in list_world_problems(self)),
        ]:
            raise ValidationError.from_exception_data("RunSpec", problems)
        return self

    @property
    def people_seed(self) -> int:
        """From which follows who the agents are."""
        return self.population.choose_seed(self.seed)

    def list_models(self) -> Mapping[str, ModelSpec]:
        """The models by name; a single one has the name under which its endpoint knows it."""
        if self.models:
            return self.models
        model = self.model or ModelSpec()
        return {model.name: model}

    def list_asked(self, group: GroupSpec) -> tuple[str, ...]:
        """The names of the models that a group's agents ask."""
        if group.models:
            return tuple(group.models)
        if group.model:
            return (group.model,)
        # A class of one's own asks the only model that there is, if there is one.
        is_one = self.model is not None or len(self.models) == 1
        always = group.agent in (PROMPTED, PROMPTED_AGENT)
        return (next(iter(self.list_models())),) if always or (group.may_ask and is_one) else ()

    def resolve_paths(self) -> RunSpec:
        """The same with absolute paths of its files, so that it holds in another working directory."""
        changed: dict[str, Any] = {"models": {name: model.resolve_paths() for name, model in self.models.items()}}
        if self.model is not None:
            changed["model"] = self.model.resolve_paths()
        changed["population"] = self.population.resolve_paths()
        return self.model_copy(update=changed)

    def to_document(self) -> dict[str, Any]:
        """The spec as plain JSON, for a manifest; `parse_spec` gives the same spec back."""
        return self.model_dump(mode="json", exclude=None if self.experiment is None else {"game"})

    @property
    def rounds(self) -> int:
        """How many rounds there are at most."""
        if self.experiment is None:
            return self.game.rounds
        return self.experiment.count_rounds(self.clock_start_ns)

    @property
    def clock_start_ns(self) -> int:
        """The time at which the clock of the experiment begins, if it has one."""
        path = self.experiment.clock if self.experiment is not None else None
        found = self.world.find(path) if path is not None and self.world is not None else None
        return found.clock.start if found is not None and found.clock is not None else 0

    @property
    def deadline_s(self) -> float | None:
        """How long a round may take; None = as long as it takes."""
        return self.game.deadline_s if self.experiment is None else self.experiment.deadline_s

    def find_clock_path(self, group: GroupSpec) -> str:
        """The environment by whose clock a group lives; "" = by none."""
        return group.clock or (self.experiment.clock if self.experiment is not None else None) or ""

    def _list_group_problems(self) -> list[InitErrorDetails]:
        known = self.models or {}
        problems = []
        for place, group in enumerate(self.population.groups):
            where: tuple[str | int, ...] = ("population", "groups", place)
            for field, names in (("model", [group.model] if group.model else []), ("models", list(group.models))):
                if unknown := [name for name in names if name not in known]:
                    text = f"no model is called {unknown[0]!r}; " + _list_known(list(known))
                    problems.append(_describe_problem(text, (*where, field), names))
            if group.agent in (PROMPTED, PROMPTED_AGENT) and len(known) > 1 and not group.model and not group.models:
                problems.append(_describe_problem("is missing: there are several models", (*where, "model"), None))
        return [*problems, *self._list_writer_problems()]

    def _list_writer_problems(self) -> list[InitErrorDetails]:
        backgrounds = self.population.backgrounds
        if backgrounds is None or backgrounds.mode != "model":
            return []
        where = ("population", "backgrounds", "model")
        if self.sweep is not None and self.population.seed is None and not self.sweep.varies("population.seed"):
            text = "are written for the people of one seed, and each run of a sweep has another: give population.seed"
            return [_describe_problem(text, where[:2], None)]
        if backgrounds.model is not None and backgrounds.model not in self.models:
            text = f"no model is called {backgrounds.model!r}; " + _list_known(list(self.models))
            return [_describe_problem(text, where, backgrounds.model)]
        if backgrounds.model is None and len(self.models) > 1:
            return [_describe_problem("is missing: there are several models", where, None)]
        return []

    def _list_budget_problems(self) -> list[InitErrorDetails]:
        given = self.budget.microdollars_max
        if given is None or any(model.has_price for model in self.list_models().values()):
            return []
        return [_describe_problem("needs a model with a price", ("budget", "microdollars_max"), given)]

    @property
    def asks(self) -> bool:
        """Whether agents are asked anything beside what they play, or anything is done to them or their world."""
        return bool(self.surveys or self.interviews or self.interventions)

    def _list_asking_problems(self) -> list[InitErrorDetails]:
        problems, names = [], set()
        askings: dict[str, tuple[AskingSpec, ...]] = {"surveys": self.surveys, "interviews": self.interviews}
        groups = [group.name for group in self.population.groups]
        for field, some in askings.items():
            for place, asking in enumerate(some):
                where = (field, place)
                if asking.name in names:
                    text = "is the name of another survey or interview"
                    problems.append(_describe_problem(text, (*where, "name"), asking.name))
                names.add(asking.name)
                if unknown := [name for name in asking.groups if name not in groups]:
                    text = f"no group is called {unknown[0]!r}; there are {', '.join(groups)}"
                    problems.append(_describe_problem(text, (*where, "groups"), asking.groups))
                mute = [group.is_deaf for group in self.population.groups if group.name in (asking.groups or groups)]
                if asking.remembered and mute and all(mute):
                    text = "agents that decide by a rule answer nothing, and remember nothing"
                    problems.append(_describe_problem(text, (*where, "remembered"), True))
                if isinstance(asking, InterviewSpec) and (stray := self._find_strange(asking.agents)):
                    text = f"no agent of this population is called {stray!r}; the first is agent-000001"
                    problems.append(_describe_problem(text, (*where, "agents"), asking.agents))
                if isinstance(asking.at, AfterRounds) and max(asking.at.after_rounds) > self.rounds:
                    what = "game" if self.experiment is None else "experiment"
                    text = f"the {what} has {self.rounds} rounds, none of number {max(asking.at.after_rounds)}"
                    problems.append(_describe_problem(text, (*where, "at"), asking.at))
        return problems

    def _list_deed_problems(self) -> list[InitErrorDetails]:
        problems = []
        groups = [group.name for group in self.population.groups]
        names = [one.name for one in self.interventions]
        for place, one in enumerate(self.interventions):
            where = ("interventions", place)
            if one.name in names[:place]:
                problems.append(_describe_problem("is the name of another intervention", (*where, "name"), one.name))
            if (found := one.find_problem(self.rounds)) is not None:
                field, text, given = found
                problems.append(_describe_problem(text, (*where, field), given))
            whom = one.whom
            if whom is not None and (unknown := [name for name in whom.groups if name not in groups]):
                text = f"no group is called {unknown[0]!r}; there are {', '.join(groups)}"
                problems.append(_describe_problem(text, (*where, one.deed, "groups"), whom.groups))
            listeners = one.tell.groups if one.tell is not None else ()
            deaf = [group.name for group in self.population.groups if group.name in listeners and group.is_deaf]
            if deaf:
                text = f"agents of group {deaf[0]} decide by a rule: they remember nothing that they are told"
                problems.append(_describe_problem(text, (*where, "tell", "groups"), deaf))
            if whom is not None and (stray := self._find_strange(whom.agents)):
                text = f"no agent of this population is called {stray!r}; the first is agent-000001"
                problems.append(_describe_problem(text, (*where, one.deed, "agents"), whom.agents))
        return problems

    def _find_strange(self, agents: tuple[str, ...]) -> str | None:
        """A name of no agent, if there is one among some."""
        size = self.population.size or sum(group.count or 0 for group in self.population.groups)
        digits = max(6, len(str(size)))
        for agent in agents:
            number = agent.removeprefix("agent-")
            if not (number.isdecimal() and agent == f"agent-{int(number):0{digits}d}" and 1 <= int(number) <= size):
                return agent
        return None


def _describe_problem(text: str, where: tuple[str | int, ...], given: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("spec", "{problem}", {"problem": text}), loc=where, input=given)


def _list_known(names: list[str]) -> str:
    return f"there are {', '.join(names)}" if names else "models names none"


def take_spec(spec: RunSpec | Mapping[str, Any] | Path | str) -> RunSpec:
    """A spec, or that which a mapping or the file of a path describes. Raises SpecError."""
    if isinstance(spec, RunSpec):
        return spec
    return load_spec(Path(spec)) if isinstance(spec, Path | str) else parse_spec(dict(spec))


def load_spec(path: Path) -> RunSpec:
    """The spec in a YAML file. Raises SpecError, with all problems, also if the file cannot be read."""
    document, lines = read_document(path)
    return parse_spec(document, source=str(path), lines=lines)


def read_document(path: Path) -> tuple[Any, Lines]:
    """What stands in a YAML file, a mapping, and where. Raises SpecError if it cannot be read, or is none."""
    try:
        with path.open("rb") as file:
            data = file.read(SPEC_BYTES_MAX + 1)
        if len(data) > SPEC_BYTES_MAX:
            raise YamlError(f"takes more than {SPEC_BYTES_MAX:,} bytes")
        document, lines = read_yaml(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SpecError(str(path), [SpecProblem("", "is not UTF-8 text")]) from error
    except (OSError, YamlError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(str(path), [SpecProblem("", problem, getattr(error, "line", None))]) from error
    if not isinstance(document, dict):
        raise SpecError(str(path), [SpecProblem("", "not a mapping of fields")])
    return document, lines


def parse_spec(document: Any, *, source: str = "spec", lines: Lines | None = None) -> RunSpec:
    """The spec that a document (a mapping as YAML or JSON gives it) describes; `lines` says where its fields stand.

    Raises SpecError.
    """
    if not isinstance(document, dict):
        raise SpecError(source, [SpecProblem("", "not a mapping of fields")])
    spec, problems = find_problems(document, RunSpec, lines)
    if problems:
        raise SpecError(source, problems)
    assert spec is not None
    return spec

"""Who plays: groups of agents with their rules and sizes."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from ecumene.sim.specs.attributes import (
    AttributeName,
    AttributeSpec,
    ConstraintSpec,
    TableSpec,
    Value,
    check_shares,
    list_attribute_problems,
    resolve_file,
)
from ecumene.sim.specs.backgrounds import BACKGROUND, BackgroundsSpec
from ecumene.sim.specs.durations import Time
from ecumene.sim.specs.households import HouseholdsSpec, list_household_problems
from ecumene.sim.specs.models import WEIGHT_MAX
from ecumene.sim.specs.networks import NetworkSpec
from ecumene.sim.specs.numbers import ExactShare
from ecumene.sim.specs.placeholders import list_placeholders
from ecumene.sim.specs.rule_players import RULE_PARAMETERS, check_rule_player, place_under
from ecumene.sim.specs.section import Section
from ecumene.sim.specs.waking import WakeSpec
from ecumene.sim.specs.world import EnvironmentPath

POPULATION_MAX = 100_000_000
PROMPTED = "prompted"
PROMPTED_AGENT = "prompted-agent"
"""Looks and acts as its parameters say, in any world; a class like one's own, which is installed with the runtime."""
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class PromptedParameters(Section):
    """For `prompted`.

    Attributes:
        prompt: the name of an installed template, or a template.
        temperature: None = that of the spec's model.
        fallback: a rule player that decides when the model does not, such as `{player: level-k, level: 1}`; None = such
            a turn reports nothing.
        note: whether the template's note is told, that the game is a variant of a well-known one.
    """

    prompt: str | dict[str, Any] = "guess-p2"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    fallback: dict[str, Any] | None = None
    note: bool = False

    @model_validator(mode="after")
    def _check_fallback(self) -> Self:
        if self.fallback is not None:
            check_rule_player("fallback", self.fallback)
        return self


PARAMETERS: dict[str, type[Section]] = {**RULE_PARAMETERS, PROMPTED: PromptedParameters}


def _check_agent(name: str) -> str:
    if name in (*PARAMETERS, PROMPTED_AGENT) or _CLASS.fullmatch(name):
        return name
    known = f"{', '.join(map(repr, (*PARAMETERS, PROMPTED_AGENT)))} or module:Class"
    raise PydanticCustomError("literal_error", "Input should be {known}", {"known": known})


class GroupSpec(Section):
    """Agents of one kind.

    Attributes:
        name: of the group, in records and reports.
        agent: the class of its agents: a ready one, or one of your own as `module:Class`, which must be installed where
            the agents live, or lie in the folder that the run is begun in, if it has a runtime of its own.
        count: how many; or give a share.
        share: which share of the population, a number or a fraction such as "1/3".
        parameters: of the class.
        persona: who a prompted agent is; a class of your own finds it in its profile. Names of attributes in
            braces, such as {age}, become the values of each agent, {background} its background. Empty = its background,
            else what its attributes say, if it has any.
        model: which of the spec's `models` its agents ask (a class of your own may ask none); or give models.
        models: several, each with its weight: which one an agent asks is drawn once, by its id and the seed.
        attributes: what all of its agents are, whatever the population's attributes would make them.
        process: `shared`: many agents a worker process; `agent`: each has a process of its own, 256 at most.
        wake: events that wake them, beside the opening of a round.
        clock: the environment by whose clock they live; none = by that of the experiment, if it has one.
        first_wake: when each is first woken by its clock; none = where the clock of the experiment begins, and not at
            all by another clock. For later wakes agents ask themselves.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    agent: Annotated[str, AfterValidator(_check_agent)]
    count: Annotated[int, Field(ge=0, le=POPULATION_MAX)] | None = None
    share: Annotated[ExactShare, Field(ge=0, le=1)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    persona: str = ""
    model: str | None = None
    models: dict[str, Annotated[float, Field(ge=0, le=WEIGHT_MAX, allow_inf_nan=False)]] = Field(default_factory=dict)
    attributes: dict[AttributeName, Value] = Field(default_factory=dict)
    process: Literal["shared", "agent"] = "shared"
    wake: Annotated[tuple[WakeSpec, ...], Field(max_length=100)] = ()
    clock: EnvironmentPath | None = None
    first_wake: Time | None = None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if (self.count is None) == (self.share is None):
            raise ValueError("give either count or share")
        return self

    @property
    def is_ready(self) -> bool:
        """Whether its class is one whose parameters a spec knows; others check their own when they are launched."""
        return self.agent in PARAMETERS

    @property
    def is_deaf(self) -> bool:
        """Whether its agents follow a rule, and remember nothing."""
        return self.agent in RULE_PARAMETERS

    @property
    def may_ask(self) -> bool:
        """Whether its agents may have a model."""
        return self.agent == PROMPTED or not self.is_ready

    @property
    def temperature(self) -> float | None:
        """At which its agents ask; None = that of the model."""
        return self.parameters.get("temperature") if self.agent == PROMPTED else None

    def dump_parameters(self) -> dict[str, Any]:
        """The parameters as plain JSON, with the defaults of a ready class filled in."""
        if self.is_ready:
            return PARAMETERS[self.agent].model_validate(self.parameters).model_dump(mode="json")
        return self.parameters

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if not self.is_ready:
            try:
                json.dumps(self.parameters, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"parameters hold what JSON does not: {error}") from error
            return self
        try:
            PARAMETERS[self.agent].model_validate(self.parameters)
        except ValidationError as error:
            found = place_under("parameters", error, PARAMETERS[self.agent])
            raise ValidationError.from_exception_data("GroupSpec", found) from error
        return self

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if not self.may_ask and (self.model or self.models):
            raise ValueError("only prompted agents, and classes of your own, ask a model")
        if self.model and self.models:
            raise ValueError("give model or models, not both")
        if self.models and not sum(self.models.values()) > 0:
            raise ValueError("the weights of models sum to 0")
        return self


class PopulationSpec(Section):
    """The population.

    Attributes:
        groups: its groups; all with counts, or all with shares that sum to one.
        size: number of agents; needed with shares, with counts it is their sum.
        sampling: `quota` gives each group, and each value of an attribute, exactly its share, to the nearest whole
            agents; `random` draws each agent by itself.
        normalise: divide shares of groups by their sum instead of refusing a sum that is not one.
        attributes: what each agent has: its class finds it in its profile, and the prompt of a prompted agent tells it.
        tables: attributes that are drawn together, from rows of a sample of people.
        households: who lives together; their members are drawn to fit each other.
        constraints: what no agent is.
        networks: who knows whom, by the name of each network; kept in the run's directory.
        backgrounds: a text for each agent that says who it is.
        seed: from which follows who the agents are; None = the spec's. With one of its own, the runs of a sweep have
            the same agents.
    """

    groups: Annotated[tuple[GroupSpec, ...], Field(max_length=1_000)]
    size: Annotated[int, Field(ge=1, le=POPULATION_MAX)] | None = None
    sampling: Literal["quota", "random"] = "quota"
    normalise: bool = False
    attributes: dict[AttributeName, AttributeSpec] = Field(default_factory=dict)
    tables: Annotated[tuple[TableSpec, ...], Field(max_length=100)] = ()
    households: HouseholdsSpec | None = None
    constraints: Annotated[tuple[ConstraintSpec, ...], Field(max_length=1_000)] = ()
    networks: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")], NetworkSpec] = Field(
        default_factory=dict
    )
    backgrounds: BackgroundsSpec | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    def choose_seed(self, seed: int) -> int:
        """From which follows who the agents are, in a run of some seed."""
        return seed if self.seed is None else self.seed

    def list_attributes(self) -> list[str]:
        """The names of all attributes, those of households and tables first."""
        home = [] if self.households is None else self.households.list_attributes()
        return [*home, *(name for table in self.tables for name in table.columns.values()), *self.attributes]

    def resolve_paths(self) -> PopulationSpec:
        """The same with absolute paths of its files."""
        attributes = {}
        for name, attribute in self.attributes.items():
            table = None if attribute.table is None else tuple(map(resolve_file, attribute.table))
            attributes[name] = resolve_file(attribute).model_copy(update={"table": table})
        tables = tuple(map(resolve_file, self.tables))
        networks = {name: resolve_file(network) for name, network in self.networks.items()}
        households = None if self.households is None else resolve_file(self.households)
        changed: dict[str, Any] = {
            "attributes": attributes,
            "tables": tables,
            "networks": networks,
            "households": households,
            "backgrounds": None if self.backgrounds is None else self.backgrounds.resolve_paths(),
        }
        return self.model_copy(update=changed)

    @model_validator(mode="after")
    def _check_attributes(self) -> Self:
        known = self.list_attributes()
        problems = list(list_attribute_problems(self.attributes, self.tables, self.constraints, known))
        if self.households is not None:
            fixed = {place: set(group.attributes) for place, group in enumerate(self.groups)}
            lasts = [list(constraint.never)[-1] for constraint in self.constraints]
            problems += list_household_problems(self.households, self.attributes, self.tables, fixed, lasts)
        for place, group in enumerate(self.groups):
            if unknown := [name for name in group.attributes if name not in known]:
                told = f"there are {', '.join(known)}" if known else "population.attributes names none"
                problems.append((("groups", place, "attributes"), f"no attribute is called {unknown[0]!r}; {told}"))
            problems += self._list_persona_problems(place, group, known)
        if self.backgrounds is not None:
            groups = [group.name for group in self.groups]
            found = self.backgrounds.list_problems(known, groups)
            problems += [(("backgrounds", *where), text) for where, text in found]
        for name, network in self.networks.items():
            if network.household and self.households is None:
                problems.append((("networks", name, "household"), "there are no households"))
            by = network.homophily.by if network.homophily else ()
            if unknown := [each for each in by if each not in known]:
                told = f"there are {', '.join(known)}" if known else "there are none"
                problems.append(
                    (("networks", name, "homophily", "by"), f"no attribute is called {unknown[0]!r}; {told}")
                )
        if problems:
            details = [
                InitErrorDetails(
                    type=PydanticCustomError("spec", "{problem}", {"problem": text}), loc=where, input=None
                )
                for where, text in problems
            ]
            raise ValidationError.from_exception_data("PopulationSpec", details)
        return self

    def _list_persona_problems(self, place: int, group: GroupSpec, known: list[str]) -> list[tuple[Any, str]]:
        used = list_placeholders(group.persona)
        where = ("groups", place, "persona")
        backgrounds = self.backgrounds
        has_background = backgrounds is not None and (not backgrounds.groups or group.name in backgrounds.groups)
        if has_background and group.persona and BACKGROUND not in used:
            told = f"does not tell the background: name it as {{{BACKGROUND}}}, or leave the group out of "
            return [(where, told + "backgrounds.groups")]
        names = [*known, *([BACKGROUND] if backgrounds is not None else [])]
        if known and (unknown := [name for name in used if name not in names]):
            return [(where, f"no attribute is called {unknown[0]!r}; there are {', '.join(names)}")]
        return []

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if not self.groups:
            raise ValueError("there are no groups")
        names = [group.name for group in self.groups]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"groups share the name {', '.join(twice)}")
        counts = [group.count for group in self.groups if group.count is not None]
        if not counts:
            return self._check_shares()
        if len(counts) < len(self.groups):
            raise ValueError("give all groups a count, or all a share")
        if sum(counts) < 1 or self.size not in (None, sum(counts)):
            raise ValueError(f"the counts sum to {sum(counts)}, the size is {self.size or 'at least 1'}")
        return self

    def _check_shares(self) -> Self:
        if self.size is None:
            raise ValueError("shares need a size")
        check_shares([group.share or Fraction(0) for group in self.groups], self.normalise)
        return self

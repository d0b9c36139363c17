"""What a run does to its world or its agents in between: at a round, or as soon as something is so."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, model_validator

from ecumene.sim.specs.game import GAME_PATH
from ecumene.sim.specs.numbers import RealNumber
from ecumene.sim.specs.section import Section

RoundNumber = Annotated[int, Field(ge=1, le=1_000)]
BOOKS_PATH = "/runtime"
DEEDS = ("set", "delete", "rules", "tell", "pause", "resume")


class EntrySpec(Section):
    """An entry of the world.

    Attributes:
        path: of its environment, such as `/town/market`; it is made if it is not there.
        key: of the entry.
    """

    path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._-]+)+$", max_length=500)]
    key: Annotated[str, Field(min_length=1, max_length=200)]


class SetSpec(EntrySpec):
    """An entry and its new value.

    Attributes:
        value: anything that JSON holds.
    """

    value: JsonValue


class RulesSpec(Section):
    """Other rules of the game, from the next round on; what is not given stays as it is.

    Attributes:
        ratio: positive; a number or a fraction such as "1/2".
        offset: added to ratio × mean.
    """

    ratio: Annotated[RealNumber, Field(gt=0)] | None = None
    offset: RealNumber | None = None

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if self.ratio is None and self.offset is None:
            raise ValueError("give ratio or offset")
        return self


class WhomSpec(Section):
    """Some agents: named ones, or all of some groups, or a sample of those.

    Attributes:
        agents: ids such as `agent-000001`.
        groups: of the population; none = all.
        sample: so many of them, drawn by the run's seed; none = all.
    """

    agents: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    groups: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()
    sample: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @model_validator(mode="after")
    def _check_whom(self) -> Self:
        if bool(self.agents) == bool(self.groups or self.sample):
            raise ValueError("give either agents, or groups or a sample")
        if len(set(self.agents)) < len(self.agents):
            raise ValueError("an agent is named twice")
        return self


class TellSpec(Section):
    """A message to the agents of some groups, or to a sample of those.

    Attributes:
        text: what they are told.
        groups: of the population; none of rule agents, which remember nothing.
        sample: so many of them, drawn by the run's seed; none = all.
    """

    text: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
    groups: Annotated[tuple[str, ...], Field(min_length=1, max_length=1_000)]
    sample: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        """It names none."""
        return ()


class ConditionSpec(Section):
    """A figure of the round that is over, or an entry of the world, compared with a number.

    Attributes:
        figure: of the guess game `mean`, `winning_number` or `reported` (how many numbers came in); of an experiment
            one of its figures, or what `close_round` returns under this name; or
        entry: whose value is a number.
        below, above, equals: what it must be; one of them.
    """

    figure: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    entry: EntrySpec | None = None
    below: RealNumber | None = None
    above: RealNumber | None = None
    equals: RealNumber | None = None

    @model_validator(mode="after")
    def _check_both(self) -> Self:
        if (self.figure is None) == (self.entry is None):
            raise ValueError("give either figure or entry")
        if len([1 for demand in (self.below, self.above, self.equals) if demand is not None]) != 1:
            raise ValueError("give one of below, above and equals")
        return self

    def holds(self, figure: float) -> bool:
        """Whether a figure is so."""
        if self.below is not None:
            return figure < self.below
        return figure > self.above if self.above is not None else figure == self.equals

    def __str__(self) -> str:
        what = self.figure or (self.entry and f"{self.entry.path} {self.entry.key}")
        demands = {"below": self.below, "above": self.above, "equal to": self.equals}
        (told,) = [f"{name} {number:g}" for name, number in demands.items() if number is not None]
        return f"{what} {told}"


class InterventionSpec(Section):
    """One intervention: when (one of three), and what (one of six). It happens once.

    Attributes:
        name: of the intervention, in records and reports; no two of a run share one.
        before_round: before this round begins.
        after_round: after this round, and what is asked after it.
        when: after the first round after which this is so.
        set: an entry gets a value.
        delete: an entry goes, if it is there.
        rules: the game goes on by other rules.
        tell: agents are told something, which they remember, and prompted players find in their prompts from then on.
        pause: agents take no turns; each ends as cancelled, and is in no mean.
        resume: agents that were paused take turns again.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    before_round: RoundNumber | None = None
    after_round: RoundNumber | None = None
    when: ConditionSpec | None = None
    set: SetSpec | None = None
    delete: EntrySpec | None = None
    rules: RulesSpec | None = None
    tell: TellSpec | None = None
    pause: WhomSpec | None = None
    resume: WhomSpec | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if len([1 for moment in (self.before_round, self.after_round, self.when) if moment is not None]) != 1:
            raise ValueError("give one of before_round, after_round and when")
        if len([1 for deed in DEEDS if getattr(self, deed) is not None]) != 1:
            raise ValueError(f"give one of {', '.join(DEEDS[:-1])} and {DEEDS[-1]}")
        return self

    @property
    def deed(self) -> str:
        """What it does, as the spec calls it."""
        return next(deed for deed in DEEDS if getattr(self, deed) is not None)

    @property
    def whom(self) -> WhomSpec | TellSpec | None:
        """Whom it concerns, if it concerns agents."""
        return self.pause or self.resume or self.tell

    def find_problem(self, rounds: int) -> tuple[str, str, Any] | None:
        """What makes no sense in a game of so many rounds: the field, why, and what was given; None if nothing."""
        for field in ("before_round", "after_round"):
            number = getattr(self, field)
            if number is not None and number > rounds:
                return field, f"the game has {rounds} rounds, none of number {number}", number
        if self.after_round == rounds and self.deed in ("rules", "tell", "pause", "resume"):
            return (
                self.deed,
                f"no round follows round {rounds}, the last one: it would change nothing",
                self.after_round,
            )
        entry = self.set or self.delete
        if entry is not None and _is_below(entry.path, GAME_PATH):
            text = f"what the game keeps below {GAME_PATH} is what was played, which is not undone; change its rules"
            return self.deed, text, entry.path
        if entry is not None and _is_below(entry.path, BOOKS_PATH):
            return self.deed, f"what is below {BOOKS_PATH} is kept by the runtimes themselves", entry.path
        return None


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")

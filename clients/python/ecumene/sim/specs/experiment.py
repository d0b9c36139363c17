"""What is done in a world of one's own: rounds of a behaviour, or a stretch of simulated time in rounds."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator

from ecumene.client.durations import show_duration
from ecumene.sim.specs.durations import Span
from ecumene.sim.specs.section import Section
from ecumene.sim.specs.world import EnvironmentPath, Key

ROUNDS_MAX = 1_000
FigureName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")]


class FigureSpec(Section):
    """Something that is read in the world whenever a round is over: one of these.

    Attributes:
        path: of the environment.
        key: an entry's value; or
        operation: what an operation that only reads returns; or
        aggregate: the value of an aggregate of the environment.
        arguments: of the operation.
    """

    path: EnvironmentPath
    key: Key | None = None
    operation: Key | None = None
    aggregate: Key | None = None
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if len([one for one in (self.key, self.operation, self.aggregate) if one is not None]) != 1:
            raise ValueError("give one of key, operation and aggregate")
        if self.arguments and self.operation is None:
            raise ValueError("arguments are for an operation")
        return self


class ExperimentSpec(Section):
    """What is done: either rounds of an environment, or a stretch of time of a clock.

    Attributes:
        environment: whose behaviour offers `open_round` and `close_round`, as docs/worlds.md tells; or
        clock: the environment whose event-driven clock goes on until a time.
        rounds: of the environment, how many are played.
        deadline_s: a round of the environment ends at the latest this many seconds after it began.
        until: of the clock: the time at which the run ends. What is due then is not done any more.
        every: of the clock: rounds end at the multiples of this; then figures are read, agents asked, conditions looked
            at. None = the whole time is one round.
        figures: what is read when a round is over, by name, beside what `close_round` returns.
    """

    environment: EnvironmentPath | None = None
    clock: EnvironmentPath | None = None
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_MAX)] | None = None
    deadline_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = None
    until: Span | None = None
    every: Span | None = None
    figures: Annotated[dict[FigureName, FigureSpec], Field(max_length=100)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_which(self) -> Self:
        if (self.environment is None) == (self.clock is None):
            raise ValueError("give either environment, whose rounds are played, or clock, whose time passes")
        given = {name: getattr(self, name) is not None for name in ("rounds", "deadline_s", "until", "every")}
        foreign = ("until", "every") if self.clock is None else ("rounds", "deadline_s")
        if wrong := [name for name in foreign if given[name]]:
            raise ValueError(f"{wrong[0]} is for {'clock' if self.clock is None else 'environment'}")
        if self.clock is not None and self.until is None:
            raise ValueError("until is missing: the time at which the run ends")
        if self.environment is not None and self.rounds is None:
            raise ValueError("rounds is missing: how many are played")
        if self.every is not None and self.until is not None and self.count_rounds() > ROUNDS_MAX:
            told = f"{show_duration(self.every)} is {self.count_rounds():,} times in {show_duration(self.until)}"
            raise ValueError(f"{told}; at most {ROUNDS_MAX:,} rounds can be")
        return self

    def count_rounds(self, start_ns: int = 0) -> int:
        """How many rounds there are, of a clock that begins at a time: the first and the last one may be shorter."""
        if self.rounds is not None:
            return self.rounds
        assert self.until is not None
        if self.every is None:
            return 1
        return max(1, -(-self.until // self.every) - start_ns // self.every)

    def find_end_ns(self, number: int, start_ns: int) -> int:
        """The time at which a round of the clock ends, which belongs to the next one."""
        assert self.until is not None
        return self.until if self.every is None else min(self.until, (start_ns // self.every + number) * self.every)

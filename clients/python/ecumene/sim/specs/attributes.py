"""What each agent of a population has: attributes, how they are distributed, and what never goes together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ecumene.sim.specs.numbers import ExactShare, RealNumber
from ecumene.sim.specs.section import FilePath, Section

Template = Literal["age", "gender", "education", "occupation", "nationality"]
RESERVED = frozenset({"agent", "agent_id", "class", "group", "model", "parameters", "persona"})
_NAME = re.compile(r"[^\W\d_][\w-]{0,39}")
_KINDS = ("template", "categories", "values", "file", "uniform", "normal", "lognormal", "integers", "bins")


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an attribute: a letter, then up to 39 letters, digits, _ and -")
    if name in RESERVED:
        raise ValueError(f"an attribute cannot be called {name}: every agent has one already")
    return name


def _check_text(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError('write "yes" and "no" in quotes: YAML reads them as true and false')
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError("must be text or a number")


def _check_value(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError('must be text or a number ("yes" and "no" in quotes)')
    return value


AttributeName = Annotated[str, BeforeValidator(_check_name)]
Category = Annotated[str, BeforeValidator(_check_text)]
Value = Annotated[str | int | float, BeforeValidator(_check_value)]
Share = Annotated[ExactShare, Field(ge=0)]


class UniformSpec(Section):
    """Numbers that are all equally likely.

    Attributes:
        low: the least.
        high: the bound above, itself not drawn.
    """

    low: RealNumber
    high: RealNumber

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _check_order(self)


class IntegersSpec(Section):
    """Whole numbers that are all equally likely, both bounds included.

    Attributes:
        low: the least.
        high: the greatest.
    """

    low: Annotated[int, Field(ge=-(2**53), le=2**53)]
    high: Annotated[int, Field(ge=-(2**53), le=2**53)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class Bounded(Section):
    """Bounds of a distribution, which is cut off there and not heaped up.

    Attributes:
        at_least: None = none.
        at_most: None = none.
    """

    at_least: RealNumber | None = None
    at_most: RealNumber | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.at_least is not None and self.at_most is not None and self.at_least >= self.at_most:
            raise ValueError(f"at_least {self.at_least:g} is not below at_most {self.at_most:g}")
        return self


class NormalSpec(Bounded):
    """A normal distribution.

    Attributes:
        mean: before it is cut off.
        deviation: its standard deviation, before it is cut off.
    """

    mean: RealNumber
    deviation: Annotated[RealNumber, Field(gt=0)]


class LognormalSpec(Bounded):
    """A lognormal distribution.

    Attributes:
        median: before it is cut off.
        sigma: the standard deviation of the logarithms.
    """

    median: Annotated[RealNumber, Field(gt=0)]
    sigma: Annotated[RealNumber, Field(gt=0, le=20)]


class BinSpec(Section):
    """One stretch of numbers, equally likely within it.

    Attributes:
        low: the least.
        high: the bound above, itself not drawn.
        share: of the population.
    """

    low: RealNumber
    high: RealNumber
    share: Share

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _check_order(self)


class DistributionSpec(Section):
    """How one attribute is distributed; exactly one of its fields but `column`, `whole` and `normalise` is given.

    Attributes:
        template: one that comes with Ecumene.
        categories: each with its share. If the names of all are whole numbers, so is the attribute.
        values: equally likely ones.
        file: of equally likely values: text with one on each line, or
        column: this column of a file of CSV or Parquet.
        uniform: numbers, equally likely.
        normal: numbers.
        lognormal: positive numbers.
        integers: whole numbers, equally likely.
        bins: numbers by stretches.
        whole: whether numbers are cut to whole ones.
        normalise: divide shares by their sum instead of refusing a sum that is not one.
    """

    template: Template | None = None
    categories: dict[Category, Share] | None = None
    values: Annotated[tuple[Value, ...], Field(min_length=1)] | None = None
    file: FilePath | None = None
    column: str | None = None
    uniform: UniformSpec | None = None
    normal: NormalSpec | None = None
    lognormal: LognormalSpec | None = None
    integers: IntegersSpec | None = None
    bins: Annotated[tuple[BinSpec, ...], Field(min_length=1)] | None = None
    whole: bool = False
    normalise: bool = False

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        self._check_count(_KINDS)
        if self.column is not None and self.file is None:
            raise ValueError("column goes with file")
        if self.whole and not (self.uniform or self.normal or self.lognormal or self.bins):
            raise ValueError("whole goes with uniform, normal, lognormal and bins")
        if self.categories is not None:
            check_shares(list(self.categories.values()), self.normalise)
        if self.bins is not None:
            check_shares([each.share for each in self.bins], self.normalise)
            ordered = sorted(self.bins, key=lambda each: each.low)
            for one, other in itertools.pairwise(ordered):
                if one.high > other.low:
                    raise ValueError(f"the bins from {one.low:g} and from {other.low:g} overlap")
        return self

    def _check_count(self, kinds: tuple[str, ...]) -> None:
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"there are {', '.join(given)}" if given else "there is none"
            raise ValueError(f"give exactly one of {', '.join(kinds)}; {found}")


class BoundsSpec(Section):
    """Numbers within bounds; all that are given hold together.

    Attributes:
        below: less than this.
        above: more than this.
        at_least: this or more.
        at_most: this or less.
    """

    below: RealNumber | None = None
    above: RealNumber | None = None
    at_least: RealNumber | None = None
    at_most: RealNumber | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("give at least one of below, above, at_least, at_most")
        return self


Condition = Value | tuple[Value, ...] | BoundsSpec
"""A value, several of which one has to be met, or bounds of a number."""


class CaseSpec(DistributionSpec):
    """How an attribute is distributed where others have some values.

    Attributes:
        when: attribute -> its value, a list of values, or bounds; all have to be met. Empty = in all other cases.
    """

    when: dict[AttributeName, Condition] = Field(default_factory=dict)


class AttributeSpec(DistributionSpec):
    """One attribute: a distribution, or a table of distributions by what other attributes are.

    Attributes:
        given: the attributes on which it depends.
        table: its cases; the first that is met holds.
    """

    given: tuple[AttributeName, ...] = ()
    table: Annotated[tuple[CaseSpec, ...], Field(min_length=1)] | None = None

    def _check_count(self, kinds: tuple[str, ...]) -> None:
        super()._check_count((*kinds, "table"))

    @model_validator(mode="after")
    def _check_table(self) -> Self:
        if bool(self.given) != (self.table is not None):
            raise ValueError("given and table go together")
        for case in self.table or ():
            if unknown := sorted(set(case.when) - set(self.given)):
                raise ValueError(f"a case asks for {unknown[0]}, which is not in given: {', '.join(self.given)}")
        return self

    def list_distributions(self) -> Iterator[DistributionSpec]:
        """All that it may be drawn from."""
        yield from self.table or (self,)


class TableSpec(Section):
    """People whose rows are drawn whole, so that what goes together stays together.

    Attributes:
        file: CSV with a header, or Parquet.
        columns: column of the file -> attribute.
        weight: the column that says how often each row is drawn; None = all alike.
        marginals: attribute -> value -> share: the weights are fitted to these by iterative proportional fitting, the
            file being the seed sample.
        normalise: divide shares of marginals by their sum instead of refusing a sum that is not one.
    """

    file: FilePath
    columns: Annotated[dict[str, AttributeName], Field(min_length=1)]
    weight: str | None = None
    marginals: dict[AttributeName, dict[Category, Share]] = Field(default_factory=dict)
    normalise: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = list(self.columns.values())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two columns become {twice[0]}")
        for name, shares in self.marginals.items():
            if name not in names:
                raise ValueError(f"a marginal is of {name}, which is none of {', '.join(names)}")
            try:
                check_shares(list(shares.values()), self.normalise)
            except ValueError as error:
                raise ValueError(f"marginal of {name}: {error}") from error
        return self


class ConstraintSpec(Section):
    """What no agent is.

    Attributes:
        never: attribute -> a value, a list of values, or bounds. Who would meet all of them gets another value of the
            attribute that is named last.
    """

    never: Annotated[dict[AttributeName, Condition], Field(min_length=1)]

    def describe(self) -> str:
        """As it stands in the spec, on one line."""
        return f"never {describe_conditions(self.never)}"


def describe_conditions(conditions: Mapping[str, Any]) -> str:
    """Conditions that hold together, on one line."""
    return ", ".join(f"{name} {_describe_condition(wanted)}" for name, wanted in conditions.items())


def check_shares(shares: list[Fraction], normalise: bool) -> None:
    """Raises ValueError unless shares sum to one, or may be made to."""
    total = sum(shares, Fraction(0))
    if total == 0:
        raise ValueError("all shares are 0")
    if total != 1 and not normalise:
        raise ValueError(f"the shares sum to {float(total):.10g}, not to 1 (normalise: true divides by the sum)")


def list_attribute_problems(
    attributes: dict[str, AttributeSpec],
    tables: tuple[TableSpec, ...],
    constraints: tuple[ConstraintSpec, ...],
    known: list[str],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What does not fit together: place, and what is wrong. `known`: all attributes that there are."""
    for place, table in enumerate(tables):
        for name in table.columns.values():
            if known.count(name) > 1:
                yield ("tables", place, "columns"), f"{name} has two sources: a table and another"
    for name, attribute in attributes.items():
        if unknown := [other for other in attribute.given if other not in known]:
            yield ("attributes", name, "given"), f"no attribute is called {unknown[0]!r}; there are {', '.join(known)}"
    for place, constraint in enumerate(constraints):
        if unknown := [other for other in constraint.never if other not in known]:
            told = f"there are {', '.join(known)}" if known else "there are none"
            yield ("constraints", place, "never"), f"no attribute is called {unknown[0]!r}; {told}"


def resolve_file(spec: Any) -> Any:
    """The same with its file's path absolute."""
    return spec if spec.file is None else spec.model_copy(update={"file": Path(spec.file).absolute()})


def _check_order(stretch: Any) -> Any:
    if stretch.low >= stretch.high:
        raise ValueError(f"low {stretch.low:g} is not below high {stretch.high:g}")
    return stretch


def _describe_condition(wanted: Any) -> str:
    if isinstance(wanted, BoundsSpec):
        return " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in wanted if bound is not None)
    return " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else str(wanted)

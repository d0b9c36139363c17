"""Who lives together: households whose members fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ecumene.sim.specs.attributes import (
    AttributeName,
    AttributeSpec,
    BoundsSpec,
    Category,
    Share,
    TableSpec,
    check_shares,
)
from ecumene.sim.specs.section import FilePath, Section

HOUSEHOLD, ROLE = "household", "role"
PEOPLE_MAX = 100
"""In one household."""


def _read_count(given: Any) -> Any:
    """A plain number of members is one that is certain."""
    return {str(given): 1} if isinstance(given, int) and not isinstance(given, bool) else given


Count = Annotated[dict[Category, Share], BeforeValidator(_read_count), Field(min_length=1)]
"""How many members have a role: numbers, each with its share."""


class HouseholdTypeSpec(Section):
    """Households of one kind.

    Attributes:
        share: of all households, not of all people.
        members: role -> how many have it: a number, or numbers with their shares, such as {1: 0.5, 2: 0.5}.
    """

    share: Share
    members: Annotated[dict[Category, Count], Field(min_length=1)]

    @field_validator("members")
    @classmethod
    def _check_counts(cls, members: dict[str, dict[str, Fraction]]) -> dict[str, dict[str, Fraction]]:
        for role, counts in members.items():
            for count in counts:
                if not count.isdecimal() or int(count) > PEOPLE_MAX:
                    raise ValueError(f"{role}: {count!r} is no number of members from 0 to {PEOPLE_MAX}")
            try:
                check_shares(list(counts.values()), normalise=False)
            except ValueError as error:
                raise ValueError(f"{role}: {error}") from error
        return members


class DifferenceSpec(BoundsSpec):
    """What parts the members of a household: a number of those of one role, less that of those of another.

    Attributes:
        attribute: of numbers, such as age.
        of: whose number it is of.
        minus: whose number is taken from it; of several members each.
    """

    attribute: AttributeName
    of: Category
    minus: Category

    @property
    def bounds(self) -> BoundsSpec:
        """Within which each difference lies."""
        return BoundsSpec.model_validate(self.model_dump(include=set(BoundsSpec.model_fields), exclude_none=True))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set & set(BoundsSpec.model_fields):
            raise ValueError("give at least one of below, above, at_least, at_most")
        if self.of == self.minus:
            raise ValueError("of and minus are two roles")
        return self

    def describe(self) -> str:
        """On one line."""
        told = " and ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in self.bounds if bound is not None)
        return f"{self.attribute} of {self.of} minus that of {self.minus}: {told}"


class HouseholdsSpec(Section):
    """Households: by types, or those of a sample of people. Their members have ids that follow each other.

    Each agent gets a `household`, a number from 1, and with types a `role`.

    Attributes:
        types: name -> its share and its members; or
        file: CSV with a header, or Parquet: people, each with the household that they belong to.
        household: the column of the file that says to which; people of one stand anywhere in it.
        columns: column of the file -> attribute; an attribute called `role` is what differences ask for.
        weight: the column that says how often a household is drawn; each of its people has the same. None = all alike.
        normalise: divide shares of types by their sum instead of refusing a sum that is not one.
        alike: attributes that all members have in common: each household is given one value.
        differences: what parts members, such as the ages of parents and children.
    """

    types: dict[Category, HouseholdTypeSpec] = Field(default_factory=dict)
    file: FilePath | None = None
    household: str | None = None
    columns: dict[str, AttributeName] = Field(default_factory=dict)
    weight: str | None = None
    normalise: bool = False
    alike: tuple[AttributeName, ...] = ()
    differences: Annotated[tuple[DifferenceSpec, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.types) == (self.file is not None):
            raise ValueError("give either types or file")
        if self.file is None:
            if self.household is not None or self.columns or self.weight is not None:
                raise ValueError("household, columns and weight go with file")
            check_shares([each.share for each in self.types.values()], self.normalise)
        elif self.household is None:
            raise ValueError("file needs household, the column that says who lives together")
        names = self.list_attributes()
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two columns become {twice[0]}")
        return self

    def list_attributes(self) -> list[str]:
        """What each member gets from its household."""
        return [HOUSEHOLD, *(self.columns.values() if self.file is not None else [ROLE])]

    def list_roles(self) -> set[str] | None:
        """The roles that there are; None = the file tells."""
        return {role for each in self.types.values() for role in each.members} if self.types else None


def list_household_problems(
    households: HouseholdsSpec,
    attributes: Mapping[str, AttributeSpec],
    tables: tuple[TableSpec, ...],
    fixed: Mapping[int, set[str]],
    lasts: list[str],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What does not fit the rest of a population: place, and what is wrong.

    `fixed`: place of a group -> what it fixes; `lasts`: the attribute that each constraint names last.
    """
    own = households.list_attributes()
    drawn = [*attributes, *(name for table in tables for name in table.columns.values())]
    if twice := [name for name in drawn if name in own]:
        yield ("households",), f"{twice[0]} has two sources: households and another"
    for place, name in enumerate(households.alike):
        if name not in attributes:
            yield ("households", "alike", place), f"{name} is none of population.attributes"
        elif attributes[name].given:
            yield ("households", "alike", place), f"{name} depends on others, who differ in a household"
    for place, difference in enumerate(households.differences):
        where = ("households", "differences", place)
        if difference.attribute not in drawn:
            yield (*where, "attribute"), f"{difference.attribute} is not drawn: there are {', '.join(drawn) or 'none'}"
        elif difference.attribute in households.alike:
            yield (*where, "attribute"), f"all of a household have the same {difference.attribute}"
        roles = households.list_roles()
        for field, role in (("of", difference.of), ("minus", difference.minus)):
            if roles is not None and role not in roles:
                yield (*where, field), f"nobody is {role!r}; there are {', '.join(sorted(roles))}"
        if roles is None and ROLE not in own:
            yield where, "no column of the file becomes role"
    stays = {*own, *households.alike}
    for group, names in fixed.items():
        if kept := sorted(stays & names):
            yield ("groups", group, "attributes"), f"{kept[0]} is what households give, which no group fixes"
    for place, last in enumerate(lasts):
        if last in stays:
            yield ("constraints", place, "never"), f"{last} stays as households give it: name another attribute last"

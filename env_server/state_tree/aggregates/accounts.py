"""Accounts: what an aggregate needs to know of the entries it runs over, kept up with each change.

An account of entries is told what an entry was and is. An account of children is told each child's share in it: what
the child's own account comes to. A share can be taken back as exactly as an entry, so that the two add up alike.
"""

import re
from bisect import bisect_left
from typing import Any, Final, NamedTuple

from env_server.model.entries import Entry
from env_server.model.environments import Aggregate, AggregateValue, Function
from env_server.model.values import INT_MAX, INT_MIN, Json
from env_server.state_tree.aggregates.exact import ExactSum, Extremes

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
"""An array index of RFC 6901; longer ones lie outside any document, and may be too long to be read as a number."""


class Share(NamedTuple):
    """What an account comes to, as the account above takes it. `part` is the function's own."""

    entries: int
    numbers: int
    part: Any = None


NO_SHARE: Final = Share(0, 0)


class Account:
    """What one or several aggregates of the same entries and field need: here the counts, in subclasses the rest."""

    __slots__ = ("_field", "entries", "numbers")

    def __init__(self, field: tuple[str, ...] = ()) -> None:
        self._field = field
        self.entries = 0
        self.numbers = 0

    def change(self, old: Entry | None, new: Entry | None) -> None:
        """Takes `old` out and puts `new` in."""
        if old is not None:
            self.entries -= 1
            number = old[0] if not self._field else _at(old[0], self._field)
            if type(number) is float or type(number) is int:
                self.numbers -= 1
                self.remove(number)
        if new is not None:
            self.entries += 1
            number = new[0] if not self._field else _at(new[0], self._field)
            if type(number) is float or type(number) is int:
                self.numbers += 1
                self.add(number)

    def replace(self, was: Share, now: Share) -> None:
        """Takes one share out and puts another one of the same child in."""
        self.entries += now.entries - was.entries
        self.numbers += now.numbers - was.numbers
        if was.part != now.part:
            self.replace_part(was.part, now.part)

    def share(self) -> Share:
        """What the account comes to; NO_SHARE when it is as if it were not there."""
        return Share(self.entries, self.numbers, self.part()) if self.entries else NO_SHARE

    def add(self, number: int | float) -> None:
        """One more number."""

    def remove(self, number: int | float) -> None:
        """One number less."""

    def part(self) -> Any:
        """The function's own part of the share; None when there is no number."""

    def replace_part(self, was: Any, now: Any) -> None:
        """Takes one part out and puts another one in; None = nothing."""

    def containers(self) -> list[Any]:
        """See Tally.containers."""
        return []

    def value(self, aggregate: Aggregate) -> AggregateValue:
        """The aggregate's value now."""
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, self.entries)


class SumAccount(Account):
    """Sums and means. Part: the exact sum in its unit, and how many of the numbers are doubles."""

    __slots__ = ("_doubles", "_sum")

    def __init__(self, field: tuple[str, ...] = ()) -> None:
        super().__init__(field)
        self._sum = ExactSum()
        self._doubles = 0

    def add(self, number: int | float) -> None:
        if type(number) is float:
            self._sum.add(number)
            self._doubles += 1
        else:
            self._sum.add_int(number)  # type: ignore[arg-type]

    def remove(self, number: int | float) -> None:
        if type(number) is float:
            self._sum.add(-number)
            self._doubles -= 1
        else:
            self._sum.add_int(-number)  # type: ignore[arg-type]

    def part(self) -> Any:
        return (self._sum.units(), self._doubles) if self.numbers else None

    def replace_part(self, was: Any, now: Any) -> None:
        units_was, doubles_was = was or (0, 0)
        units, doubles = now or (0, 0)
        self._sum.add_units(units - units_was)
        self._doubles += doubles - doubles_was

    def value(self, aggregate: Aggregate) -> AggregateValue:
        value: int | float | None = None
        if self.numbers:
            if aggregate.function is Function.MEAN:
                value = self._sum.divided(self.numbers)
            elif self._doubles:
                value = self._sum.value()
            else:
                value = self._sum.integer()
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, value)


class ExtremeAccount(Account):
    """Minima or maxima. Part: the extreme, and whether it is a double."""

    __slots__ = ("_extremes",)

    def __init__(self, field: tuple[str, ...], sign: int) -> None:
        super().__init__(field)
        self._extremes = Extremes(sign)

    def add(self, number: int | float) -> None:
        self._extremes.add(number)

    def remove(self, number: int | float) -> None:
        self._extremes.remove(number)

    def part(self) -> Any:
        extreme = self._extremes.value()
        return None if extreme is None else (extreme, type(extreme) is float)

    def replace_part(self, was: Any, now: Any) -> None:
        if was is not None:
            self._extremes.remove(was[0])
        if now is not None:
            self._extremes.add(now[0])

    def containers(self) -> list[Any]:
        return self._extremes.containers()

    def value(self, aggregate: Aggregate) -> AggregateValue:
        value = self._extremes.value()
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, value)


class HistogramAccount(Account):
    """Counts by bucket: bucket i holds numbers <= bounds[i], the last one the rest. Part: the counts."""

    __slots__ = ("_bounds", "_buckets")

    def __init__(self, field: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        super().__init__(field)
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)

    def add(self, number: int | float) -> None:
        self._buckets[bisect_left(self._bounds, number)] += 1

    def remove(self, number: int | float) -> None:
        self._buckets[bisect_left(self._bounds, number)] -= 1

    def part(self) -> Any:
        return tuple(self._buckets) if self.numbers else None

    def replace_part(self, was: Any, now: Any) -> None:
        none = (0,) * len(self._buckets)
        for index, (less, more) in enumerate(zip(was or none, now or none, strict=True)):
            self._buckets[index] += more - less

    def value(self, aggregate: Aggregate) -> AggregateValue:
        buckets = tuple(self._buckets)
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, None, buckets)


def account_for(aggregate: Aggregate) -> Account:
    """An empty account that can tell the aggregate's value."""
    match aggregate.function:
        case Function.SUM | Function.MEAN:
            return SumAccount(aggregate.field)
        case Function.MIN:
            return ExtremeAccount(aggregate.field, 1)
        case Function.MAX:
            return ExtremeAccount(aggregate.field, -1)
        case Function.HISTOGRAM:
            return HistogramAccount(aggregate.field, aggregate.bounds)
        case _:
            return Account(aggregate.field)


def _at(value: object, tokens: tuple[str, ...]) -> Any:
    """What an RFC 6901 pointer finds in a document; None when there is nothing."""
    if type(value) is not Json:
        return None
    found = value.document
    for token in tokens:
        if isinstance(found, dict):
            found = found.get(token)
        elif isinstance(found, list) and _INDEX.fullmatch(token) and int(token) < len(found):
            found = found[int(token)]
        else:
            return None
    if type(found) is int and not INT_MIN <= found <= INT_MAX:  # JSON knows no bound; numbers here have 64 bits
        try:
            return float(found)
        except OverflowError:
            return None
    return found

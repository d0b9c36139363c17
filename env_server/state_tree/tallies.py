"""Tallies: the running aggregates of one environment and the count of reports of its gate's generation.

A derived effect of each change, computed in its loop step: what the entry was is taken out, what it is put in. An
entry is a report of the current generation when it was last changed after the generation began, so a report that
replaces another of the same generation counts once.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Final

from env_server.model.entries import Entry
from env_server.model.environments import Aggregate, AggregateValue, Function, Gate
from env_server.model.values import INT_MAX, INT_MIN, Json
from env_server.state_tree.exact import ExactSum, Extremes

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
"""An array index of RFC 6901; longer ones lie outside any document, and may be too long to be read as a number."""


class Tally:
    """Aggregates and reports of one environment."""

    __slots__ = ("_accounts", "_aggregates", "begin_revision", "changed", "reported", "target")

    def __init__(self, aggregates: tuple[Aggregate, ...], gate: Gate | None) -> None:
        self._aggregates = aggregates
        #: Entries changed after this revision are reports.
        self.begin_revision = 0
        #: Entries that are reports.
        self.reported = 0
        #: Number of reports that opens the gate; -1 = none does.
        self.target = -1
        #: Whether an aggregate changed since the flag was last cleared.
        self.changed = False
        self._accounts: dict[tuple[bool, tuple[str, ...], Function, tuple[float, ...]], Account] = {}
        for aggregate in aggregates:
            self._accounts.setdefault(_account_key(aggregate), _account_for(aggregate))
        if gate is not None:
            self.begin_revision = gate.begin_revision
            self.aim(gate)

    def aim(self, gate: Gate) -> None:
        """Takes over when the gate opens by count."""
        self.target = gate.count_target if gate.collecting and gate.count_target else -1

    def next_generation(self, gate: Gate) -> "Tally":
        """The tally at the begin of a generation: no report yet; what covers all entries goes on, shared."""
        tally = Tally(self._aggregates, gate)
        for key, account in self._accounts.items():
            if not key[0]:
                tally._accounts[key] = account
        tally.changed = self.changed
        return tally

    def change(self, old: Entry | None, new: Entry | None) -> None:
        """Takes `old` out and puts `new` in; None = there was, or is, no entry."""
        begin = self.begin_revision
        was = old is not None and old[3] > begin
        now = new is not None and new[3] > begin
        if now is not was:
            self.reported += 1 if now else -1
        for key, account in self._accounts.items():
            if key[0]:
                account.change(old if was else None, new if now else None)
            else:
                account.change(old, new)
            self.changed = True

    def scan(self, entries: Iterable[Entry]) -> None:
        """Counts entries that were there before the tally."""
        for entry in entries:
            self.change(None, entry)
        self.changed = False

    def values(self, names: tuple[str, ...] = ()) -> list[AggregateValue]:
        """The aggregates named, all when none is; unknown names are left out."""
        return [
            self._accounts[_account_key(aggregate)].value(aggregate)
            for aggregate in self._aggregates
            if not names or aggregate.name in names
        ]


class Account:
    """What one or several aggregates of the same entries and field need: here the counts, in subclasses the rest."""

    __slots__ = ("_field", "entries", "numbers")

    def __init__(self, field: tuple[str, ...]) -> None:
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

    def add(self, number: int | float) -> None:
        """One more number."""

    def remove(self, number: int | float) -> None:
        """One number less."""

    def value(self, aggregate: Aggregate) -> AggregateValue:
        """The aggregate's value now."""
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, self.entries)


class SumAccount(Account):
    """Sums and means."""

    __slots__ = ("_doubles", "_sum")

    def __init__(self, field: tuple[str, ...]) -> None:
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
    """Minima or maxima."""

    __slots__ = ("_extremes",)

    def __init__(self, field: tuple[str, ...], sign: int) -> None:
        super().__init__(field)
        self._extremes = Extremes(sign)

    def add(self, number: int | float) -> None:
        self._extremes.add(number)

    def remove(self, number: int | float) -> None:
        self._extremes.remove(number)

    def value(self, aggregate: Aggregate) -> AggregateValue:
        value = self._extremes.value()
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, value)


class HistogramAccount(Account):
    """Counts by bucket: bucket i holds numbers <= bounds[i], the last one the rest."""

    __slots__ = ("_bounds", "_buckets")

    def __init__(self, field: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        super().__init__(field)
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)

    def add(self, number: int | float) -> None:
        self._buckets[bisect_left(self._bounds, number)] += 1

    def remove(self, number: int | float) -> None:
        self._buckets[bisect_left(self._bounds, number)] -= 1

    def value(self, aggregate: Aggregate) -> AggregateValue:
        buckets = tuple(self._buckets)
        return AggregateValue(aggregate.name, aggregate.function, self.entries, self.numbers, None, buckets)


def _account_key(aggregate: Aggregate) -> tuple[bool, tuple[str, ...], Function, tuple[float, ...]]:
    function = Function.SUM if aggregate.function is Function.MEAN else aggregate.function
    return aggregate.in_generation, aggregate.field, function, aggregate.bounds


def _account_for(aggregate: Aggregate) -> Account:
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

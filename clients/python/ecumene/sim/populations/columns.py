"""One attribute of many agents, as a column: numbers, or codes of a few texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ecumene.sim.populations.streams import Numbers
from ecumene.sim.specs.attributes import BoundsSpec


@dataclass(slots=True)
class Column:
    """One value for each agent.

    Attributes:
        data: whole or real numbers; with `texts`, places among them.
        texts: the values of a column of text.
    """

    data: Numbers
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.data)

    @property
    def kind(self) -> str:
        """`text` or `number`."""
        return "number" if self.texts is None else "text"

    def put(self, rows: Numbers, other: Column) -> None:
        """Set some rows to the values of another column of the same kind, which has one for each."""
        if self.texts is None or other.texts is None:
            if self.data.dtype != other.data.dtype:
                self.data = self.data.astype(np.float64)
            self.data[rows] = other.data
            return
        if self.texts is not other.texts and self.texts != other.texts:
            known = dict.fromkeys((*self.texts, *other.texts))
            self.texts = tuple(known)
            places = {text: place for place, text in enumerate(self.texts)}
            self.data[rows] = np.array([places[text] for text in other.texts], dtype=np.int32)[other.data]
        else:
            self.data[rows] = other.data

    def take(self, rows: Numbers) -> Column:
        """Some rows, in their order."""
        return Column(self.data[rows], self.texts)

    def meets(self, rows: Numbers, wanted: Any) -> Numbers:
        """For each of some rows, whether it meets a condition of a spec."""
        if self.texts is None:
            return meet_numbers(self.data[rows], wanted)
        met = np.array([meets_text(text, wanted) for text in self.texts], dtype=bool)
        return met[self.data[rows]] if len(met) else np.zeros(len(rows), dtype=bool)

    def to_arrow(self) -> pa.Array:
        """As a column of a table; texts as a dictionary."""
        if self.texts is None:
            return pa.array(self.data)
        return pa.DictionaryArray.from_arrays(pa.array(self.data, pa.int32()), pa.array(self.texts, pa.string()))


def make_column(values: Sequence[Any]) -> Column:
    """A column of values: of numbers, if all of them are; else of text."""
    if all(isinstance(value, int | float) for value in values):
        return Column(np.array(values))
    texts = [str(value) for value in values]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return Column(np.array([places[text] for text in texts], dtype=np.int32), tuple(places))


def make_categories(names: Sequence[str]) -> Column:
    """The column of the names of categories: of whole numbers, if all of them are written as such."""
    whole = [int(name) for name in names if name.removeprefix("-").isdecimal() and str(int(name)) == name]
    return Column(np.array(whole)) if len(whole) == len(names) else make_column(names)


def read_arrow(column: pa.ChunkedArray) -> Column | None:
    """A column of a table; None if it holds neither text nor finite numbers, or has gaps."""
    if column.null_count:
        return None
    kind = column.type
    if pa.types.is_dictionary(kind):
        return read_arrow(column.cast(kind.value_type))
    if pa.types.is_integer(kind):
        return Column(column.cast(pa.int64(), safe=False).to_numpy())
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy()
        return Column(numbers) if np.isfinite(numbers).all() else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
        whole = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        return Column(whole.indices.to_numpy(), tuple(whole.dictionary.to_pylist()))
    return None


def meet_numbers(numbers: Numbers, wanted: Any) -> Numbers:
    """For each number, whether it meets a condition of a spec. A text is met by no number."""
    if isinstance(wanted, BoundsSpec):
        met = np.ones(len(numbers), dtype=bool)
        for bound, compare in (
            (wanted.below, np.less),
            (wanted.above, np.greater),
            (wanted.at_least, np.greater_equal),
            (wanted.at_most, np.less_equal),
        ):
            if bound is not None:
                met &= compare(numbers, bound)
        return met
    values = [value for value in (wanted if isinstance(wanted, tuple) else (wanted,)) if not isinstance(value, str)]
    return np.isin(numbers, values)


def meets_text(text: str, wanted: Any) -> bool:
    """Whether a text meets a condition; bounds are met by no text."""
    if isinstance(wanted, BoundsSpec):
        return False
    return text in (wanted if isinstance(wanted, tuple) else (wanted,))

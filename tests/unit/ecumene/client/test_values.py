"""Python values survive the wire, and what cannot travel is refused before it is sent."""

from __future__ import annotations

import enum
from typing import Any

import ecumene
import numpy
import pytest
from ecumene.client import values
from env_api.v1 import values_pb2
from hypothesis import given
from hypothesis import strategies as st

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict | list))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)


def send(value: Any) -> Any:
    data = values.fill_value(values_pb2.Value(), value).SerializeToString()
    return values.read_value(values_pb2.Value.FromString(data))


@given(scalars | documents)
def test_a_value_comes_back_equal_and_of_its_own_type(value: Any) -> None:
    received = send(value)
    assert received == value
    assert type(received) is type(value)


class Mood(enum.IntEnum):
    """A subclass of a plain type."""

    CALM = 3


def test_subclasses_travel_as_their_plain_type() -> None:
    assert send(Mood.CALM) == 3
    assert type(send(Mood.CALM)) is int
    assert send(numpy.float64(0.5)) == 0.5
    assert send(bytearray(b"a")) == b"a"
    assert send((1, 2)) == [1, 2]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, object(), {1, 2}, "\ud800", [float("nan")], {"a": b"x"}])
def test_what_has_no_form_is_refused_here(value: Any) -> None:
    with pytest.raises(ecumene.InvalidValueError) as caught:
        send(value)
    assert caught.value.executed is ecumene.Executed.NO


def test_an_unset_value_reads_as_none() -> None:
    assert values.read_value(values_pb2.Value()) is None

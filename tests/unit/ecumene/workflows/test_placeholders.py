"""A placeholder reads like the value that it stands for."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterator
from typing import Any

import pytest
from ecumene import workflows

from tests.workflow_actors import Note, Teller


@pytest.fixture
def teller() -> Iterator[Any]:
    """A proxy in a local flow."""
    with workflows.local():
        yield Teller().to_dist()


VALUES = [0, 7, 2.5, "text", "", [1, 2], [], (1, 2), {"a": 1, "get": 2}, None, True, b"bytes"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_reads_like_its_value(teller: Any, value: Any) -> None:
    placeholder = teller.tell(value)
    assert placeholder == value
    assert (placeholder != value) is False
    assert str(placeholder) == str(value)
    assert f"{placeholder}" == f"{value}"
    assert bool(placeholder) is bool(value)
    if hasattr(value, "__len__"):
        assert len(placeholder) == len(value)
        assert list(placeholder) == list(value)
        assert all(item in placeholder for item in value)
    if isinstance(value, list | tuple | str | bytes) and value:
        assert placeholder[0] == value[0]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"])
def test_it_computes_like_its_value(teller: Any, name: str) -> None:
    function = getattr(operator, name)
    seven, two = teller.tell(7), teller.tell(2)
    assert function(seven, 2) == function(7, 2) == function(7, two) == function(seven, two)


def test_it_converts_and_has_the_attributes_of_its_value(teller: Any) -> None:
    assert int(teller.tell(3)) == 3 and float(teller.tell(2)) == 2.0 and [5, 6][teller.tell(1)] == 6
    assert teller.tell(Note("n", ("t",))).tags == ("t",)
    assert teller.tell("text").upper() == "TEXT"
    assert teller.tell({"a": 1}).get("a") == 1
    assert teller.tell({"a": 1}).get("b", 2) == 2
    with pytest.raises(AttributeError):
        _ = teller.tell(1).nothing
    with pytest.raises(AttributeError):
        _ = teller.tell(1)._private


def test_it_tells_of_itself_without_waiting(teller: Any) -> None:
    slow = teller.tell_later(1, 0.3)
    assert repr(slow).startswith("<Placeholder of Teller.tell_later, call ") and repr(slow).endswith("pending>")
    assert {slow: 1}[slow] == 1 and slow in {slow}
    assert not slow.done
    slow.get()
    assert slow.done and repr(slow).endswith("done>")


def test_a_loop_of_another_thread_may_await_it(teller: Any) -> None:
    async def script() -> list[Any]:
        return await asyncio.gather(*(teller.tell_later(number, 0.05) for number in range(10)))

    assert asyncio.run(script()) == list(range(10))

"""Values travel as plain trees: faithfully, or not at all."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from ecumene.workflows import ValueRefusedError
from ecumene.workflows.values import Packing, Unpacking, dump, fill_refs, message, name_class
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflow_actors import Note, Unregistered, Verdict

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["$ref", "$tuple", "$bytes"]), inner, max_size=4)
        | st.dictionaries(st.integers() | st.booleans() | st.none(), inner, max_size=3)
    ),
    max_leaves=20,
)


def travel(value: Any) -> Any:
    text = dump(Packing(lambda handle: []).pack(value))
    assert text.isascii()
    return Unpacking(lambda described: described).unpack(json.loads(text))


def same(left: Any, right: Any) -> bool:
    return left == right and repr(left) == repr(right)


@settings(max_examples=400, deadline=None)
@given(plain)
def test_what_travels_arrives_as_it_was(value: Any) -> None:
    assert same(travel(value), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0, 10**400, "\ud800", {"$ref": 1}])
def test_odd_values_travel(value: Any) -> None:
    assert repr(travel(value)) == repr(value)


def test_registered_classes_travel_with_what_is_in_them() -> None:
    note = Note("a", ("x", "y"), {"inner": [Note("b"), Verdict(winner="w", score=0.5)]})
    assert same(travel(note), note)


def test_what_is_not_registered_is_refused_by_name() -> None:
    with pytest.raises(ValueRefusedError, match=r"Unregistered is not registered: decorate it with @"):
        travel([Unregistered("x")])
    for value in (object(), {1, 2}, lambda: None, open):
        with pytest.raises(ValueRefusedError, match="cannot be sent"):
            travel(value)


def test_a_class_of_neither_kind_cannot_be_registered() -> None:
    with pytest.raises(TypeError, match="neither a dataclass nor a pydantic model"):
        message(int)


def test_cycles_and_depth_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(ValueRefusedError, match="nested too deeply"):
            travel(value)


def test_too_many_digits_are_refused() -> None:
    with pytest.raises(ValueRefusedError, match="no form in JSON"):
        travel(10**5000)


def test_only_registered_names_become_objects_and_nothing_is_imported() -> None:
    unpacking = Unpacking(lambda described: described)
    for mark in ("$data", "$model"):
        with pytest.raises(ValueRefusedError, match="os:system is not registered here"):
            unpacking.unpack({mark: ["os:system", {}]})
    for tree in ({"$unknown": 1}, {"$ref": 7}, {"$bytes": "?"}, {"$data": 3}, {"$dict": [1]}, {"$float": "x"}):
        with pytest.raises(ValueRefusedError, match="cannot be read"):
            unpacking.unpack(tree)


def test_pickles_stay_the_bytes_that_they_are() -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("a pickle was read",))

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(3, protocol)
        assert travel(data) == data
    assert travel(b"cbuiltins\nexit\n(tR.") == b"cbuiltins\nexit\n(tR."
    with pytest.raises(ValueRefusedError):
        travel(Bomb())


def test_references_are_filled_wherever_they_stand() -> None:
    tree = {"a": [{"$ref": 1}], "$tuple": [{"$ref": 0}]}
    assert fill_refs(tree, ["zero", {"one": 1}]) == {"a": [{"one": 1}], "$tuple": ["zero"]}


def test_a_tree_is_a_copy() -> None:
    value = {"list": [1]}
    tree = Packing(lambda handle: []).pack(value)
    value["list"].append(2)
    assert Unpacking(lambda described: described).unpack(tree) == {"list": [1]}


def test_classes_of_programs_are_named_by_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = type("Main", (), {"__file__": "/somewhere/debate.py", "__spec__": None})
    monkeypatch.setitem(__import__("sys").modules, "__main__", main)
    assert name_class(type("Debater", (), {"__module__": "__main__"})) == "debate:Debater"
    assert name_class(Note) == "tests.workflow_actors:Note"

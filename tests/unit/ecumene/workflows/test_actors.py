"""Actors by name: only their classes, and only methods that are for others."""

from __future__ import annotations

import sys
import types

import pytest
from ecumene import workflows
from ecumene.workflows.actors import find_actor_class, find_method, is_coroutine_method, name_actor_class

from tests.workflow_actors import Counter, Teller


def test_classes_are_found_by_module_and_name() -> None:
    assert find_actor_class(name_actor_class(Teller), None) is Teller
    assert find_actor_class("tests.workflow_actors:Counter", ["tests.workflow_actors"]) is Counter


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tests.workflow_actors:Nobody", "cannot be loaded here"),
        ("no_such_module:Teller", "No module named 'no_such_module'"),
        ("tests.workflow_actors:Note", "is no class of actors"),
        ("os:system", "is no class of actors"),
        ("unheard-of", "no class of actors 'unheard-of' is installed"),
        (":Teller", "cannot be loaded here"),
    ],
)
def test_what_is_no_class_of_actors_is_refused_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(workflows.CallRefusedError, match=problem):
        find_actor_class(name, None)


def test_modules_that_may_not_be_named_are_not_imported() -> None:
    sys.modules.pop("this", None)
    with pytest.raises(workflows.CallRefusedError, match=r"modules are tests\.workflow_actors"):
        find_actor_class("this:Zen", ["tests.workflow_actors"])
    with pytest.raises(workflows.CallRefusedError, match="none: it needs --module"):
        find_actor_class("this:Zen", [])
    assert "this" not in sys.modules


def test_a_programs_own_class_is_not_imported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    main = types.ModuleType("__main__")
    main.__file__ = "/somewhere/my_debate.py"
    main.__spec__ = None
    mine = type("Mine", (workflows.Actor,), {"__module__": "__main__"})
    main.Mine = mine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert name_actor_class(mine) == "my_debate:Mine"
    assert find_actor_class("my_debate:Mine", None) is mine


@pytest.mark.parametrize(
    "name", ["_made_with", "__init__", "__class__", "to_dist", "effects", "world", "nothing", "__call__"]
)
def test_methods_that_are_not_for_others_are_not_found(name: str) -> None:
    with pytest.raises(AttributeError, match=f"Teller.{name}"):
        find_method(Teller, name)


def test_methods_of_all_kinds_are_found() -> None:
    class Many(Teller):
        @staticmethod
        def fixed() -> int:
            return 1

        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        def __call__(self) -> int:
            return 2

    assert find_method(Many, "fixed")() == 1
    assert find_method(Many, "of_class")() == "Many"
    for name in ("tell", "tell_later", "__call__"):
        assert callable(find_method(Many, name))
    assert is_coroutine_method(Many, "tell_later") and not is_coroutine_method(Many, "tell")


def test_an_actor_remembers_what_it_was_made_with() -> None:
    teller = Teller("x", fail=False)
    teller.name = "changed"
    with workflows.local():
        assert teller.to_dist().pass_on(Teller("y").to_dist(), "tell", 1) == [1, "x"]

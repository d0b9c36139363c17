"""docs/guarantees.md names tests that exist, and every promise has some."""

from __future__ import annotations

import ast
import re

from tests.services import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_named_by_a_promise_exists() -> None:
    named = REFERENCE.findall(PAGE)
    assert len(named) > 30
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{path} has no {name}"


def test_every_promise_has_its_tests() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    numbered = [section for section in sections if re.match(r"P\d+ ", section)]
    assert [section.split()[0] for section in numbered] == [f"P{number}" for number in range(1, 13)]
    for section in sections:
        assert REFERENCE.search(section), section.splitlines()[0]


def test_the_tests_have_their_own_page() -> None:
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", page):
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert f"def {name}(" in source, f"tests/{path} has no {name}"

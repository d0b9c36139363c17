"""The sources keep the house rules, and each rule finds a planted violation."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo import tidy_rules

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("env_server", "agent_runtime", "clients", "tests", "examples", "protos")
PRODUCT_FOLDERS = ("env_server/", "agent_runtime/", "clients/")
# Tests may look at a clock, and a child that they start prints; size and names hold for them too.
RULES_FOR_ALL = (
    tidy_rules.find_long_files,
    tidy_rules.find_long_functions,
    tidy_rules.find_markers,
    tidy_rules.find_banned_names,
)

GOOD = '''"""A module."""
import asyncio


async def start(clock):
    """print("not a call"); TODO not a comment."""
    return asyncio.create_task(clock.time(), name="start")  # TODO #12 later
'''
DOC = '"""A module."""\n'
PLANTED = {
    tidy_rules.find_long_files: [DOC + "\n" * 451],
    tidy_rules.find_long_functions: [DOC + "def long():\n" + "    x = 1\n" * 60],
    tidy_rules.find_prints: [DOC + "print('x')\n"],
    tidy_rules.find_pickles: [DOC + "import pickle\n", DOC + "def f():\n    from pickle import loads\n"],
    tidy_rules.find_wall_clocks: [
        DOC + "import time\ntime.time()\n",
        DOC + "import time as t\nt.time()\n",
        DOC + "import time\nnow = time.time\n",
        DOC + "from time import time\n",
    ],
    tidy_rules.find_nameless_tasks: [
        DOC + "import asyncio\nasyncio.create_task(f())\n",
        DOC + "def f(loop):\n    loop.create_task(f())\n",
        DOC + "from asyncio import ensure_future\nensure_future(f())\n",
    ],
    tidy_rules.find_markers: [DOC + "x = 1  # TODO later\n", DOC + "# FIXME: 12\n"],
    tidy_rules.find_missing_docstrings: ["x = 1\n"],
}


def list_sources() -> Iterator[str]:
    """Python files of the working tree that git does not ignore, generated code left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCE_FOLDERS]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in sorted(set(names)):
        if name.endswith(".py") and not name.startswith("protos/gen/") and (ROOT / name).is_file():
            yield name


def test_there_are_sources_to_check() -> None:
    names = list(list_sources())
    assert "env_server/__init__.py" in names
    assert "tests/repo/test_tidy.py" in names
    assert not any("pb2" in name for name in names)


@pytest.fixture(scope="module")
def violations() -> dict[tidy_rules.Rule, list[str]]:
    """By rule; all rules look at a source before the next, so that each is parsed once."""
    found: dict[tidy_rules.Rule, list[str]] = {rule: [] for rule in tidy_rules.RULES}
    for name in list_sources():
        source = (ROOT / name).read_text(encoding="utf-8")
        for rule in tidy_rules.RULES:
            if name.startswith(PRODUCT_FOLDERS) or rule in RULES_FOR_ALL:
                found[rule] += rule(name, source)
    return found


@pytest.mark.parametrize("rule", tidy_rules.RULES, ids=lambda rule: rule.__name__)
def test_sources_keep_the_rule(rule: tidy_rules.Rule, violations: dict[tidy_rules.Rule, list[str]]) -> None:
    assert not violations[rule], "\n".join(violations[rule])


@pytest.mark.parametrize(
    ("rule", "source"), [(rule, source) for rule, sources in PLANTED.items() for source in sources]
)
def test_rule_finds_a_planted_violation(rule: tidy_rules.Rule, source: str) -> None:
    ast.parse(source)
    assert list(rule("env_server/planted.py", source))


@pytest.mark.parametrize("rule", tidy_rules.RULES, ids=lambda rule: rule.__name__)
def test_rule_passes_good_source(rule: tidy_rules.Rule) -> None:
    assert not list(rule("env_server/good.py", GOOD))


def test_banned_names_are_found_in_files_and_folders() -> None:
    assert list(tidy_rules.find_banned_names("env_server/utils.py", ""))
    assert list(tidy_rules.find_banned_names("clients/python/ecumene/common/x.py", ""))
    assert not list(tidy_rules.find_banned_names("env_server/basement.py", ""))


def test_places_with_a_licence_have_it() -> None:
    assert not list(tidy_rules.find_prints("clients/python/ecumene/cli/x.py", "print(1)\n"))
    assert not list(tidy_rules.find_wall_clocks("env_server/telemetry/x.py", "import time\ntime.time()\n"))


def test_every_rule_has_a_planted_violation() -> None:
    assert set(tidy_rules.RULES) == set(PLANTED) | {tidy_rules.find_banned_names}

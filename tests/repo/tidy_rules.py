"""The house rules that a machine can read, as functions from source to a list of violations.

Each works on the syntax tree, so that a word in a string or a comment never counts, except the
marker rule, which is about comments and reads tokens.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Callable, Iterator

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 60
BANNED_NAMES = frozenset({"utils", "helpers", "core", "common", "base", "misc"})
PRINTING_PLACES = ("clients/python/ecumene/cli/",)
WALL_CLOCK_PLACES = ("/telemetry/", "/telemetry.py")
TASK_MAKERS = frozenset({"create_task", "ensure_future"})
MARKER = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\s*\(?#\d+)")

Rule = Callable[[str, str], Iterator[str]]


def find_long_files(path: str, source: str) -> Iterator[str]:
    """Files of more than 450 lines."""
    lines = source.count("\n") + 1
    if lines > FILE_LINES_MAX + 1:
        yield f"{path}: {lines - 1} lines, {FILE_LINES_MAX} allowed"


def find_long_functions(path: str, source: str) -> Iterator[str]:
    """Functions of more than 60 lines, from `def` to the last one."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES_MAX} allowed"


def find_prints(path: str, source: str) -> Iterator[str]:
    """Calls of print outside the command line."""
    if path.startswith(PRINTING_PLACES):
        return
    for call in find_calls(source):
        if isinstance(call.func, ast.Name) and call.func.id == "print":
            yield f"{path}:{call.lineno}: print belongs to the command line"


def find_pickles(path: str, source: str) -> Iterator[str]:
    """Imports of pickle and of what pickles for others."""
    for line, name in find_imports(source):
        if name.split(".")[0] in {"pickle", "cloudpickle", "dill", "shelve", "marshal"}:
            yield f"{path}:{line}: {name}: nothing executable crosses a wire or a disk"


def find_wall_clocks(path: str, source: str) -> Iterator[str]:
    """time.time() outside telemetry: it jumps, and a simulation cannot set it."""
    if any(place in f"/{path}" for place in WALL_CLOCK_PLACES):
        return
    names = {"time.time"} | {f"{alias}.time" for alias in find_aliases(source, "time")}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "time" and ast.unparse(node) in names:
            yield f"{path}:{node.lineno}: time.time is telemetry's; take a clock as an argument"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            for alias in node.names:
                if alias.name == "time":
                    yield f"{path}:{node.lineno}: time.time is telemetry's; take a clock as an argument"


def find_nameless_tasks(path: str, source: str) -> Iterator[str]:
    """create_task and ensure_future without name=: a stuck task without a name cannot be found."""
    for call in find_calls(source):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called == "ensure_future":
            yield f"{path}:{call.lineno}: ensure_future takes no name; use create_task(..., name=...)"
        elif called in TASK_MAKERS and not any(keyword.arg == "name" for keyword in call.keywords):
            yield f"{path}:{call.lineno}: {called} without name="


def find_markers(path: str, source: str) -> Iterator[str]:
    """TODO or FIXME comments without an issue number (#N)."""
    if not MARKER.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and MARKER.search(token.string):
            yield f"{path}:{token.start[0]}: {token.string.strip()} names no issue (#N)"


def find_banned_names(path: str, source: str) -> Iterator[str]:
    """Modules and packages whose name says nothing."""
    for part in path.removesuffix(".py").split("/"):
        if part in BANNED_NAMES:
            yield f"{path}: '{part}' says nothing about what is inside"


def find_missing_docstrings(path: str, source: str) -> Iterator[str]:
    """Modules that do not say what they are for."""
    if source.strip() and not ast.get_docstring(parse(source)):
        yield f"{path}: no module docstring"


@functools.lru_cache(maxsize=1)
def parse(source: str) -> ast.Module:
    """The tree of a source; one rule after the other asks for it."""
    return ast.parse(source)


def find_calls(source: str) -> Iterator[ast.Call]:
    """All calls in a source."""
    return (node for node in ast.walk(parse(source)) if isinstance(node, ast.Call))


def find_imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, wherever the import stands."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def find_aliases(source: str, module: str) -> set[str]:
    """The names under which a module was imported."""
    return {
        alias.asname
        for node in ast.walk(parse(source))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module and alias.asname
    }


RULES: tuple[Rule, ...] = (
    find_long_files,
    find_long_functions,
    find_prints,
    find_pickles,
    find_wall_clocks,
    find_nameless_tasks,
    find_markers,
    find_banned_names,
    find_missing_docstrings,
)

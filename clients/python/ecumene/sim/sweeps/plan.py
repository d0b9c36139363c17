"""The runs of a sweep, each a spec of its own: known before the first begins, and the same whenever asked."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ecumene.sim.specs.all_problems import find_problems
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.specs.sweep import SweepSpec, Values, name_cell
from ecumene.sim.specs.yaml_reading import Lines, find_line

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        number: from 1, in the sweep.
        replicate: from 1, in its cell.
        values: of its cell.
        spec: what is run; its seed is the run's own.
    """

    number: int
    replicate: int
    values: Values
    spec: RunSpec


def plan_sweep(spec: RunSpec, *, source: str = "spec", lines: Lines | None = None) -> tuple[PlannedRun, ...]:
    """The runs of a spec's sweep, cell by cell. Raises SpecError with what is wrong with any cell."""
    sweep = spec.sweep or SweepSpec()
    document = spec.model_copy(update={"sweep": None}).to_document()
    problems = [*_list_shared(spec)]
    planned: list[PlannedRun] = []
    for values in sweep.list_cells():
        try:
            cell = read_cell(document, values)
        except SpecError as error:
            problems += error.problems
            continue
        for replicate in range(1, sweep.replicates + 1):
            key = "" if sweep.common_seeds else name_cell(values)
            seeded = cell.model_copy(update={"seed": derive_seed(cell.seed, key, replicate)})
            planned.append(PlannedRun(len(planned) + 1, replicate, values, seeded))
    if problems:
        distinct = dict.fromkeys((problem.path, problem.message) for problem in problems)
        raise SpecError(source, [_place(path, message, lines or {}) for path, message in distinct])
    return tuple(planned)


def derive_seed(seed: int, cell: str, replicate: int) -> int:
    """The seed of a run: 63 bits of BLAKE2b over `SEED/CELL/REPLICATE` in UTF-8; `cell` "" = of common seeds."""
    digest = blake2b(f"{seed}/{cell}/{replicate}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def read_cell(document: dict[str, Any], values: Values) -> RunSpec:
    """The spec of a cell: the document, with other values. Raises SpecError, its paths below `sweep`."""
    changed = copy.deepcopy(document)
    problems = [
        SpecProblem(f"sweep: {path}", problem)
        for path, value in values.items()
        if (problem := set_value(changed, path, value))
    ]
    if problems:
        raise SpecError("sweep", problems)
    spec, found = find_problems(changed, RunSpec)
    if spec is None or found:
        cell = ", ".join(f"{path} = {value}" for path, value in values.items())
        raise SpecError("sweep", [SpecProblem(f"sweep: with {cell}", str(problem)) for problem in found])
    return spec


def set_value(document: Any, path: str, value: Any) -> str:
    """Set a field of a document by its path; what is wrong with the path, or ""."""
    steps = list(_walk(path))
    for done, step in enumerate(steps):
        is_last = done == len(steps) - 1
        place = find_step(document, step)
        if place is None:
            known = [str(one) for one in (document if isinstance(document, dict) else [])]
            near = difflib.get_close_matches(str(step), known, n=1)
            return f"there is no {step!r}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
        if is_last:
            document[place] = value
        elif document[place] is None:
            document[place] = {}
            document = document[place]
        else:
            document = document[place]
    return ""


def find_step(document: Any, step: str | int) -> Any:
    """Where a step of a path leads: a field, a place of a list, or an item that has that name; None = nowhere."""
    if isinstance(document, list):
        if isinstance(step, int):
            return step if step < len(document) else None
        named = [place for place, item in enumerate(document) if isinstance(item, dict) and item.get("name") == step]
        return named[0] if named else None
    if not isinstance(document, dict):
        return None
    # What was not given, such as `model`, takes what may stand in it; what it may not is told when it is read.
    return step if step in document or not document else None


def _walk(path: str) -> Iterator[str | int]:
    for step in _STEP.finditer(path):
        yield int(step[0]) if path[step.start() - 1 : step.start()] == "[" else step[0]


def _list_shared(spec: RunSpec) -> Iterator[SpecProblem]:
    if spec.world is not None and spec.world.name is not None:
        problem = "leave its name out: runs of a sweep have a world each, or one would be told of another's winners"
        yield SpecProblem("world", problem)


def _place(path: str, message: str, lines: Lines) -> SpecProblem:
    place = ("sweep",) if path.startswith("sweep") else (path,)
    return SpecProblem(path, message, find_line(lines, place))

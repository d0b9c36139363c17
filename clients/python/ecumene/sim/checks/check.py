"""All that is wrong with a spec, before anything runs.

text ─► YAML ─► fields ─► files, keys ─► classes, prompts ─► budgets, deadlines
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecumene.sim.checks.installed import Installed, ask_runtime
from ecumene.sim.checks.kinds import find_kind_problems
from ecumene.sim.checks.plausibility import list_doubts, list_impossible
from ecumene.sim.checks.surroundings import list_missing, list_unset
from ecumene.sim.specs.all_problems import find_problems
from ecumene.sim.specs.errors import SpecError, SpecProblem, format_path
from ecumene.sim.specs.spec import RunSpec, read_document
from ecumene.sim.specs.yaml_reading import Lines, Place, find_line
from ecumene.sim.sweeps.plan import plan_sweep


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check has found.

    Attributes:
        source: the file.
        problems: why it cannot be run, in the order of its lines. Each names its field, and says what to do.
        warnings: what can be run, and is likely not to be meant.
        spec: what it describes; None if it has problems.
    """

    source: str
    problems: tuple[SpecProblem, ...]
    warnings: tuple[SpecProblem, ...] = ()
    spec: RunSpec | None = None

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "spec": self.source,
            "ok": not self.problems,
            "problems": [_describe(problem) for problem in self.problems],
            "warnings": [_describe(warning) for warning in self.warnings],
        }


def check_spec(path: Path, *, loads_classes: bool = True) -> CheckReport:
    """Check the spec in a file, as seen from the folder that this process is in. Nothing of it is run.

    `loads_classes`: its classes and prompts are looked for by a runtime of its own, which imports them; takes seconds.
    """
    source = str(path)
    try:
        document, lines = read_document(path)
    except SpecError as error:
        return CheckReport(source, error.problems)
    spec, problems = find_problems(document, RunSpec, lines)
    if spec is None:
        return CheckReport(source, tuple(problems))
    known = {problem.path for problem in problems}
    installed = ask_runtime(spec) if loads_classes else Installed()
    found = [*list_missing(spec), *installed.problems.items(), *list_impossible(spec, installed.prompts)]
    if loads_classes:
        found += find_kind_problems(spec)
    problems += [one for one in _place(found, lines) if not _is_told(one.path, known)]
    if spec.sweep is not None:
        problems += [one for one in list_cell_problems(spec, source, lines) if not _is_told(one.path, known)]
    doubts = [*list_unset(spec), *list_doubts(spec)]
    if installed.note:
        doubts.append((("population",), installed.note))
    return CheckReport(
        source,
        tuple(sorted(problems, key=_by_line)),
        tuple(sorted(_place(doubts, lines), key=_by_line)),
        None if problems else spec,
    )


def list_cell_problems(spec: RunSpec, source: str, lines: Lines) -> tuple[SpecProblem, ...]:
    """What is wrong with any run of a sweep."""
    try:
        plan_sweep(spec, source=source, lines=lines)
    except SpecError as error:
        return error.problems
    return ()


def _place(found: Iterable[tuple[Place, str]], lines: Lines) -> list[SpecProblem]:
    return [SpecProblem(format_path(place), message, find_line(lines, place)) for place, message in found]


def _is_told(path: str, known: set[str]) -> bool:
    return any(path.startswith(other) or other.startswith(path) for other in known)


def _by_line(problem: SpecProblem) -> int:
    return problem.line or 0


def _describe(problem: SpecProblem) -> dict[str, Any]:
    return {"path": problem.path, "line": problem.line, "message": problem.message}

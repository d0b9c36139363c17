"""What of a spec is not installed where it is checked: asked of a runtime, in a process of its own.

Classes are imported there: code of one's own runs, as it would in the run, and cannot hang or end the check.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecumene.launch.discovery import SERVICE_GROUP
from ecumene.sim.populations.population import build_population
from ecumene.sim.runs.launch import write_launch
from ecumene.sim.runs.launched_models import list_launched
from ecumene.sim.specs.spec import RunSpec

CHECK_TIMEOUT_S = 60.0
_PROGRAM = (
    "import sys, importlib.metadata as m; "
    f"(main,) = [p.load() for p in m.entry_points(group={SERVICE_GROUP!r}, name='runtime')]; "
    "sys.exit(main(sys.argv[1:]))"
)
_WHERE = re.compile(r"(groups|models)\.(.+)\.(\w+)")


@dataclass(frozen=True, slots=True)
class Installed:
    """What a runtime says of a spec.

    Attributes:
        problems: place in the spec -> what is wrong there.
        prompts: group -> tokens of a prompt in the first round and in a later one, by the runtime's rule.
        answers: group -> `number` or `reasoning_and_number`, whatever its prompt asks for.
        note: why nothing could be asked; "" = it was.
    """

    problems: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)
    prompts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def ask_runtime(spec: RunSpec, *, timeout_s: float = CHECK_TIMEOUT_S) -> Installed:
    """Let a runtime load the classes, functions and prompts of a spec, from the folder that this process is in."""
    groups = tuple(group.model_copy(update={"count": 1, "share": None}) for group in spec.population.groups)
    few: dict[str, Any] = {"groups": groups, "size": None}
    if spec.population.backgrounds is not None:
        few["backgrounds"] = spec.population.backgrounds.put_together()
    small = spec.population.model_copy(update=few)
    small_spec = spec.model_copy(update={"population": small}).resolve_paths()
    with tempfile.TemporaryDirectory(prefix="ecumene-check-") as folder:
        population = build_population(small, spec.seed)
        launch = write_launch(small_spec, population, run="check", directory=Path(folder), workers=1)
        command = [sys.executable, "-c", _PROGRAM, "--spec", str(launch), "--check"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Installed(note=f"loading its classes takes more than {timeout_s:g} s")
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit {done.returncode}")
        return Installed(note=f"its classes cannot be checked: {last.strip()}")
    problems = {place_in_spec(spec, one["where"]): add_advice(one["problem"]) for one in told["problems"]}
    return Installed(problems, {name: tuple(tokens) for name, tokens in told["prompts"].items()}, told["answers"])


def add_advice(problem: str) -> str:
    """A module that is not there is most often looked for from another folder than its own."""
    where = f"; it is looked for among what is installed, and in {Path.cwd()}, where the run is begun"
    return problem + (where if "No module named" in problem else "")


def place_in_spec(spec: RunSpec, where: str) -> tuple[str | int, ...]:
    """The place in a spec of one in its launch, such as `groups.a.agent`."""
    found = _WHERE.fullmatch(where)
    if found is None:
        return ()
    kind, name, last = found.groups()
    if kind == "models":
        name = list_launched(spec).get(name, name)
        return ("models", name, last) if spec.models else ("model", last)
    place: int = next((place for place, group in enumerate(spec.population.groups) if group.name == name), 0)
    return ("population", "groups", place, last)

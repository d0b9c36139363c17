"""Which kinds a spec's server will know, and whether they offer what the experiment needs: asked of a server.

Behaviours are imported in a process of their own, as for a run: their code can neither hang nor end the check.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from ecumene.launch.discovery import SERVICE_GROUP
from ecumene.sim.checks.installed import add_advice
from ecumene.sim.rounds.own_rounds import OPERATIONS
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.specs.yaml_reading import Place

CHECK_TIMEOUT_S = 60.0
_PROGRAM = (
    "import sys, importlib.metadata as m; "
    f"(main,) = [p.load() for p in m.entry_points(group={SERVICE_GROUP!r}, name='env-server')]; "
    "sys.exit(main(sys.argv[1:]))"
)
Kinds = Mapping[str, Mapping[str, Mapping[str, bool]]]
"""Kind -> operation -> `reads_only`."""


def find_kind_problems(spec: RunSpec) -> list[tuple[Place, str]]:
    """What is wrong with behaviours, kinds, and what the experiment asks of them; nothing is asked if none is named."""
    world = spec.world
    if world is None or not (world.behaviours or any(one.kind for one in world.environments)):
        return []
    left = list(world.behaviours)
    problems: list[tuple[Place, str]] = []
    while True:
        kinds, problem = ask_server(left)
        if kinds is not None:
            break
        broken = next((name for name in left if repr(name) in problem), None)
        if broken is None:
            return [*problems, (("world", "behaviours"), problem)]
        problems.append((("world", "behaviours", world.behaviours.index(broken)), add_advice(problem)))
        left.remove(broken)
    # A kind may be missing only because its class could not be loaded.
    return problems or list(list_kind_problems(spec, kinds))


def ask_server(behaviours: Sequence[str], *, timeout_s: float = CHECK_TIMEOUT_S) -> tuple[Kinds | None, str]:
    """The kinds of a server with these behaviours, as seen from the folder that this process is in; or what it says."""
    arguments = [part for behaviour in behaviours for part in ("--behaviour", behaviour)]
    command = [sys.executable, "-c", _PROGRAM, "--print-kinds", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, f"loading the behaviours takes more than {timeout_s:g} s"
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit {done.returncode}")
        return None, last.strip().removeprefix("error: ")


def list_kind_problems(spec: RunSpec, kinds: Kinds) -> Iterator[tuple[Place, str]]:
    """What of a spec does not fit the kinds that there are."""
    assert spec.world is not None
    own = sorted(kind for kind in kinds if kind != "basic")
    for place, environment in enumerate(spec.world.environments):
        kind = environment.kind
        if kind is not None and kind not in kinds:
            near = difflib.get_close_matches(kind, own, n=1)
            told = f"did you mean {near[0]}?" if near else f"there are {', '.join(own)}"
            yield ("world", "environments", place, "kind"), f"no behaviour has the kind {kind!r}; {told}"
    experiment = spec.experiment
    if experiment is None:
        return
    played = _find_operations(spec, experiment.environment or "", kinds)
    missing = [name for name in OPERATIONS if played is not None and name not in played]
    if experiment.environment is not None and missing:
        text = f"its kind has no operation {missing[0]}, so no rounds can be played; a RoundGame has both"
        yield ("experiment", "environment"), text
    for name, figure in experiment.figures.items():
        offered = _find_operations(spec, figure.path, kinds) if figure.operation is not None else None
        if offered is None or figure.operation is None:
            continue
        where = ("experiment", "figures", name, "operation")
        if figure.operation not in offered:
            told = f"there are {', '.join(sorted(offered))}" if offered else "it has none"
            yield where, f"{figure.path} has no operation {figure.operation}; {told}"
        elif not offered[figure.operation]["reads_only"]:
            yield where, f"{figure.operation} may change the world: a figure is read by @operation(reads_only=True)"


def _find_operations(spec: RunSpec, path: str, kinds: Kinds) -> Mapping[str, Mapping[str, bool]] | None:
    """What an environment of the spec offers; None = nobody knows here."""
    found = spec.world.find(path) if spec.world is not None else None
    if found is None or (found.kind is not None and found.kind not in kinds):
        return None
    return kinds[found.kind] if found.kind is not None else {}

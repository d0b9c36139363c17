"""`ecumene estimate`: what a spec will take, before it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.tables import print_json
from ecumene.sim import load_spec
from ecumene.sim.estimates.estimate import Estimate, Range, estimate_spec

LONG_S = 120


def estimate(
    spec: Annotated[Path, typer.Argument(help="The spec, a YAML file.", metavar="SPEC.yaml")],
    as_json: JsonOption = False,
) -> None:
    """Say what a spec will take: turns, calls, tokens, money and time, with what that rests on."""
    found = estimate_spec(load_spec(spec))
    if as_json:
        print_json(found.to_document())
    else:
        for line in describe_estimate(found):
            print(line)


def describe_estimate(found: Estimate) -> list[str]:
    """The lines of an estimate; ranges as `likely (least to most)`."""
    lines = [f"runs    {found.runs:,}", f"turns   {found.turns:,.0f}"]
    lines += [f"asked   {found.asked:,.0f} times an agent, in surveys and interviews"] if found.asked else []
    for name, one in [*found.models.items(), *([("all models", found.total)] if len(found.models) > 1 else [])]:
        lines.append(f"{name}: {one.calls:,.0f} calls")
        lines.append(f"  prompt tokens      {describe_range(one.prompt_tokens)}")
        lines.append(f"  completion tokens  {describe_range(one.completion_tokens)}")
        if one.microdollars.high:
            digits = 2 if one.microdollars.likely >= 1_000_000 else 4
            lines.append(f"  dollars            {describe_range(one.microdollars.times(1e-6), digits)}")
    lines.append(f"seconds {describe_range(found.seconds)}{describe_long(found.seconds)}")
    return [*lines, *(f"assumed: {one}" for one in found.assumptions)]


def describe_long(seconds: Range) -> str:
    """Beyond two minutes: the likely time and the most, in minutes, hours or days."""
    if seconds.likely < LONG_S:
        return ""
    return f": {describe_duration(seconds.likely)}, at most {describe_duration(seconds.high)}"


def describe_duration(seconds: float) -> str:
    """In the largest unit of which it has more than two."""
    for unit, size in (("days", 86_400), ("hours", 3_600)):
        if seconds > 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds / 60:,.0f} minutes"


def describe_range(found: Range, digits: int = 0) -> str:
    """Likely, and from where to where."""
    return f"{found.likely:,.{digits}f} ({found.low:,.{digits}f} to {found.high:,.{digits}f})"

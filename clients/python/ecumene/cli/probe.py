"""`ecumene probe`: ask a few of each group who they are, before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.running import conduct
from ecumene.cli.tables import print_json, print_table
from ecumene.sim import RunOptions, load_spec
from ecumene.sim.asking.probe import CategoryProbe, ProbeReport
from ecumene.sim.asking.probe import probe as probe_spec

COLUMNS = ("group", "asked", "answered", "persona echoed", "wrong age", "most like", "numbers")
NUMBERS_SHOWN = 5


def probe(
    spec: Annotated[Path, typer.Argument(help="The spec, a YAML file.", metavar="SPEC.yaml")],
    count: Annotated[int | None, typer.Option("--count", help="Agents of each group.", min=1, max=100)] = None,
    out: Annotated[Path | None, typer.Option(help="Instead of the spec's recording.directory.", metavar="DIR")] = None,
    as_json: JsonOption = False,
) -> None:
    """Try how well a model holds the roles of a spec: a few of each group are asked, and play one round."""
    loaded = load_spec(spec)
    if count is not None:
        loaded = loaded.model_copy(update={"probe": loaded.probe.model_copy(update={"per_category": count})})
    if out is not None:
        recording = loaded.recording.model_copy(update={"directory": out})
        loaded = loaded.model_copy(update={"recording": recording})
    options = RunOptions()
    report = conduct(lambda display: probe_spec(loaded, observer=display, options=options), options)
    if as_json:
        print_json(report.to_document())
    else:
        show(report)


def show(report: ProbeReport) -> None:
    """Print a row a group, what to look at, and what must be said with it."""
    print_table(COLUMNS, (make_row(category) for category in report.categories))
    for category in report.categories:
        for remark in category.remarks:
            print(f"{category.category}: {remark}")
    if report.note:
        print(report.note)
    elif not any(category.remarks for category in report.categories):
        print("nothing stands out; read the answers themselves: table surveys")
    print(f"records: {report.directory}")


def make_row(found: CategoryProbe) -> tuple[str, ...]:
    """A group on one line."""
    numbers = ", ".join(f"{number:g}" for number in found.numbers[:NUMBERS_SHOWN])
    alike = "–" if found.similarity is None else f"{found.nearest} ({found.similarity:.2f})"
    return (
        found.category,
        str(found.asked),
        str(found.answered),
        "–" if found.echoed is None else f"{found.echoed:.0%}",
        "–" if not found.ages else f"{found.wrong_age} of {found.asked}",
        alike,
        numbers + (", …" if len(found.numbers) > NUMBERS_SHOWN else ""),
    )

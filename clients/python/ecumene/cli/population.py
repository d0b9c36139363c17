"""`ecumene population`: draw the population of a spec, and see how well it fits."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.progress import show_progress
from ecumene.cli.tables import print_json, print_table
from ecumene.sim import RunSpec, load_spec
from ecumene.sim.populations.files import SUFFIXES, write_table
from ecumene.sim.populations.fit import PopulationFit, compare
from ecumene.sim.populations.fit_page import describe_fit, write_page
from ecumene.sim.populations.networks import build_networks
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.specs.population import POPULATION_MAX, PopulationSpec


def population(
    spec: Annotated[Path, typer.Argument(help="The spec of a run, a YAML file.", metavar="SPEC.yaml")],
    size: Annotated[
        int | None, typer.Option(help="Instead of the spec's; groups keep their shares.", min=1, max=POPULATION_MAX)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the spec's.", min=0, max=2**63 - 1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the agents there, as CSV or Parquet.", metavar="FILE.csv|.parquet")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the fit there, with plots.", metavar="FILE.html")] = None,
    networks: Annotated[
        Path | None, typer.Option(help="Write the edges of each network there, as NAME.csv.", metavar="DIR")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the population of a spec, and see how well it fits."""
    if out is not None and out.suffix not in SUFFIXES:
        raise UsageError(f"--out {out}: must end in {' or '.join(SUFFIXES)}")
    loaded = load_spec(spec)
    if seed is not None:
        people = loaded.population.model_copy(update={"seed": None})
        loaded = loaded.model_copy(update={"seed": seed, "population": people})
    wanted = loaded.population if size is None else resize(loaded.population, size)
    if wanted.backgrounds is not None and wanted.backgrounds.mode == "model":
        wanted = wanted.model_copy(update={"backgrounds": None})  # those were written for the agents of the run
    drawn, fit = draw(loaded, wanted)
    try:
        if out is not None:
            write_table(drawn.tabulate(), out)
        if networks is not None:
            networks.mkdir(parents=True, exist_ok=True)
            for name, network in build_networks(wanted.networks, drawn, wanted.choose_seed(loaded.seed)).items():
                write_table(network.tabulate(), networks / f"{name}.csv")
        if report is not None:
            report.write_text(write_page(fit, f"Population of {loaded.name}"), encoding="utf-8")
    except OSError as error:
        raise CliError(f"{error.strerror or error}: {error.filename or ''}") from error
    files = {"out": out, "report": report, "networks": networks}
    if as_json:
        print_json(fit.to_document() | {name: None if path is None else str(path) for name, path in files.items()})
        return
    print_fit(fit)
    for name, path in files.items():
        if path is not None:
            print(f"{name}: {path}")


def resize(spec: PopulationSpec, size: int) -> PopulationSpec:
    """The same with another size; groups keep their shares, counts become shares."""
    total = sum(group.count or 0 for group in spec.groups)
    groups = []
    for group in spec.groups:
        share = group.share if group.count is None else Fraction(group.count, total)
        groups.append(group.model_copy(update={"count": None, "share": share}))
    return spec.model_copy(update={"size": size, "groups": tuple(groups)})


def draw(spec: RunSpec, wanted: PopulationSpec) -> tuple[Population, PopulationFit]:
    """Draw and compare, with progress. Raises PopulationError."""
    total = len(wanted.list_attributes()) + 1
    with show_progress("drawing", total, "attributes") as progress:
        done = 0

        def tell(names: str) -> None:
            nonlocal done
            progress.show(done, names)
            done += names.count(",") + 1

        drawn = build_population(wanted, spec.seed, on_unit=tell)
        progress.show(total - 1, "comparing")
        return drawn, compare(wanted, drawn, wanted.choose_seed(spec.seed))


def print_fit(fit: PopulationFit) -> None:
    """The fit as tables."""
    groups = ", ".join(f"{name} {count:,}" for name, count in fit.groups.items())
    print(f"{fit.agents:,} agents, seed {fit.seed}, sampling {fit.sampling}; groups: {groups}")
    if fit.attributes:
        rows: list[list[Any]] = []
        for each in fit.attributes:
            test = [each.test, each.statistic, each.p, each.deviation]
            rows.append([each.name, each.case or None, each.agents, *test, describe_fit(each)])
        columns = ["attribute", "case", "agents", "test", "statistic", "p", "furthest count", "fit"]
        if not any(each.case for each in fit.attributes):
            columns.remove("case")
            rows = [[row[0], *row[2:]] for row in rows]
        print_table(columns, rows)
    if fit.pairs:
        pairs = [
            [f"{each.one}, {each.other}", each.measure, round(each.observed, 4), round(each.wanted, 4)]
            for each in fit.pairs
        ]
        print_table(["drawn together", "measure", "population", "wanted"], pairs)

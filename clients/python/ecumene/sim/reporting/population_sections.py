"""What a page tells of who the agents are: how well the population fits, and how well models held their roles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.client.records import ManifestError, RunManifest, read_manifest
from ecumene.sim.asking.probe import ALIKE, PROBE_NAME
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.fit import PopulationFit, compare
from ecumene.sim.populations.fit_page import describe_fit, list_cells
from ecumene.sim.populations.population import Population, build_groups
from ecumene.sim.reporting.page import PageBars, PageSection, make_table
from ecumene.sim.runs.profiles import NETWORKS_NAME, PROFILES_NAME
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, parse_spec

BARS_MAX = 12
"""Attributes that are drawn; all are in the table."""


def make_population_sections(directory: Path, manifest: RunManifest) -> list[PageSection]:
    """The sections of a run whose agents have attributes, networks or a probe."""
    try:
        spec = parse_spec(manifest.spec, source=f"{directory}: spec of the manifest")
    except SpecError:
        return []  # the page says already that it cannot be read
    found = [_make_population(directory, spec), _make_probe(directory, spec)]
    return [section for section in found if section is not None]


def _make_population(directory: Path, spec: RunSpec) -> PageSection | None:
    texts: list[str] = []
    fit: PopulationFit | None = None
    if spec.population.list_attributes():
        try:
            fit = compare(spec.population, _read_population(directory, spec), spec.people_seed)
        except (PopulationError, OSError, pa.ArrowException) as error:
            texts.append(f"How well the attributes fit cannot be told here: {error}")
    networks = _list_networks(directory)
    if fit is None:
        if not texts and not networks:
            return None
        return PageSection("Population", texts, tables=[networks] if networks else [])
    bad = [each for each in fit.attributes if describe_fit(each) == "does not fit"]
    texts.append(
        f"{fit.agents:,} agents, sampling {fit.sampling}, as they stand in {PROFILES_NAME}. "
        + (f"{len(bad)} of {len(fit.attributes)} comparisons do not fit." if bad else "All attributes fit.")
        + " chi2: values against their shares, ks: numbers against their distribution, with p."
    )
    rows = [(*list_cells(each), describe_fit(each)) for each in fit.attributes]
    columns = ("attribute", "case", "agents", "test", "statistic", "p", "furthest count", "fit")
    tables = [make_table("How the population fits what was asked for", columns, rows, texts=2, remarks=1)]
    if fit.pairs:
        pairs = [(f"{each.one}, {each.other}", each.measure, each.observed, each.wanted) for each in fit.pairs]
        caption = "What was drawn together (r: correlation; v: Cramér's V)"
        tables.append(make_table(caption, ("attributes", "measure", "population", "wanted"), pairs, texts=2))
    bars = [
        PageBars(f"{each.name}{f': {each.case}' if each.case else ''}, agents and what is wanted", each.bars)
        for each in fit.attributes[:BARS_MAX]
    ]
    return PageSection("Population", texts, tables=[*tables, *([networks] if networks else [])], bars=bars)


def _read_population(directory: Path, spec: RunSpec) -> Population:
    """As it is recorded, whatever became of the files of its spec."""
    table = pq.read_table(directory / PROFILES_NAME)
    groups = build_groups(spec.population, spec.seed)
    return Population(groups.groups, groups.codes, table.drop_columns(["group"]))


def _list_networks(directory: Path) -> Any:
    rows = []
    for path in sorted((directory / NETWORKS_NAME).glob("*.parquet")):
        try:
            rows.append((path.stem, pq.read_metadata(path).num_rows))
        except (OSError, pa.ArrowException):
            rows.append((path.stem, None))
    return make_table("Networks", ("network", "edges"), rows) if rows else None


def _make_probe(directory: Path, spec: RunSpec) -> PageSection | None:
    """Of the latest probe of the same roles and models that lies beside the run, or of the probe that this run is."""
    probe = find_probe(directory, spec)
    if probe is None:
        return None
    categories, note = probe.get("categories"), str(probe.get("note") or "")
    rows = [
        (
            str(one.get("category")),
            str(one.get("persona") or "–"),
            f"{one.get('answered')} of {one.get('asked')}",
            "–" if one.get("echoed") is None else f"{one['echoed']:.0%}",
            str(one.get("wrong_age")) if one.get("ages") else "–",
            "–" if one.get("nearest") is None else f"{one['nearest']} ({one['similarity']:.2f})",
            ", ".join(f"{number:g}" for number in one.get("numbers") or ()) or "–",
            "; ".join(one.get("remarks") or ()) or "–",
        )
        for one in categories or ()
    ]
    columns = ("group", "persona", "answered", "persona echoed", "wrong age", "most like", "numbers", "remarks")
    texts = [
        "A few agents of each group were asked who they are before the run, and played one round. Figures to look "
        f"at, and no judgement: a paraphrase echoes no word. From {ALIKE:g} on two groups answer alike. "
        f"The answers themselves lie in {probe.get('directory')}.",
        *([note] if note else []),
    ]
    return PageSection("Do models hold their roles?", texts, tables=[make_table("Probe", columns, rows, texts=8)])


def find_probe(directory: Path, spec: RunSpec) -> Mapping[str, Any] | None:
    """The document of a probe: the run's own, or the latest beside it that asked the same groups and models."""
    for path in (directory / PROBE_NAME, *sorted(directory.absolute().parent.glob(f"*/{PROBE_NAME}"), reverse=True)):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            probed = parse_spec(read_manifest(path.parent).spec)
        except (OSError, ValueError, ManifestError, SpecError):
            continue
        if isinstance(document, dict) and _name_roles(probed) == _name_roles(spec):
            return document | {"directory": path.parent.name}
    return None


def _name_roles(spec: RunSpec) -> str:
    """All that decides how a model holds its roles: groups without their sizes, attributes, models."""
    document = spec.to_document()
    population = document["population"]
    groups = [
        {name: value for name, value in group.items() if name not in ("count", "share")}
        for group in population["groups"]
    ]
    asked = [document["model"], document["models"], population["attributes"], population["tables"]]
    return json.dumps([groups, *asked], sort_keys=True)

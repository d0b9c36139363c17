"""From a sweep's runs to values by condition and round. One observation is one run: its mean, not its agents'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ecumene.client.errors import EcumeneError
from ecumene.client.records import ManifestError, RunState, read_manifest
from ecumene.sim.recordings import Sweep, SweepRun
from ecumene.sim.reporting.report import GuessReport, read_guess_report
from ecumene.sim.reporting.run_page import read_told


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run of a sweep: its condition, where it stands, its report, and why there is none or it ended early."""

    run: SweepRun
    condition: str
    state: str
    report: GuessReport | None
    problem: str

    @property
    def counts(self) -> bool:
        """Whether it is an observation: it is done, and its rounds could be read."""
        return self.report is not None and self.state == RunState.DONE


@dataclass
class Condition:
    """Runs with the same varied values; `means[round]` has one value a run that counts, in the order of replicates."""

    name: str
    runs: list[RunRow] = field(default_factory=list)
    means: dict[int, list[float]] = field(default_factory=dict)
    targets: dict[int, list[float]] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """Runs that are observations."""
        return sum(row.counts for row in self.runs)


def read_conditions(sweep: Sweep) -> list[Condition]:
    """The conditions of a sweep, in the order of its runs, with every run, also those that failed."""
    conditions: dict[str, Condition] = {}
    for row in _read_runs(sweep):
        condition = conditions.setdefault(row.condition, Condition(row.condition))
        condition.runs.append(row)
        if not row.counts or row.report is None:
            continue
        for played in row.report.rows:
            if played.mean is not None and played.target is not None:
                condition.means.setdefault(played.round, []).append(played.mean)
                condition.targets.setdefault(played.round, []).append(played.target)
    return list(conditions.values())


def name_condition(values: Mapping[str, object]) -> str:
    """The varied values in words; of a sweep that varies nothing but seeds, "all runs"."""
    told = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values.values())
    return ", ".join(f"{name} = {value}" for name, value in zip(values, told, strict=True)) or "all runs"


def _read_runs(sweep: Sweep) -> Iterator[RunRow]:
    for run in sweep.runs:
        report, state, problem = None, run.state, ""
        try:
            manifest = read_manifest(run.directory)
            state, problem = manifest.state.value, manifest.note
            report = read_guess_report(run.directory, told=read_told(run.directory)).report
        except (EcumeneError, ManifestError, OSError) as error:
            problem = problem or str(error)
        yield RunRow(run, name_condition(run.values), state, report, problem)

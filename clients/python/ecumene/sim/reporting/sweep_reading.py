"""From a sweep's runs to values by condition and round. One observation is one run: its mean, not its agents'."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
    """Runs with the same varied values; `means[round]` has one value a run that counts, in the order of replicates.

    `letter` names it in pictures: A is the first, with which others are compared. `values`: field -> value in words.
    """

    name: str
    letter: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
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
    short = shorten_fields(sweep.varied)
    for row in _read_runs(sweep, short):
        told = Condition(row.condition, name_letter(len(conditions)), tell_values(row.run.values))
        condition = conditions.setdefault(row.condition, told)
        condition.runs.append(row)
        if not row.counts or row.report is None:
            continue
        for played in row.report.rows:
            if played.mean is not None and played.target is not None:
                condition.means.setdefault(played.round, []).append(played.mean)
                condition.targets.setdefault(played.round, []).append(played.target)
    return list(conditions.values())


def shorten_fields(fields: Sequence[str]) -> dict[str, str]:
    """Field -> as much of the end of its path as tells it from the others, such as `level` or `thinkers.level`."""
    steps = {one: re.findall(r"[^.\[\]]+", one) for one in fields}
    short = {}
    for one, path in steps.items():
        others = [other for name, other in steps.items() if name != one]
        count = next((n for n in range(1, len(path)) if all(other[-n:] != path[-n:] for other in others)), len(path))
        short[one] = ".".join(path[-count:])
    return short


def tell_values(values: Mapping[str, object]) -> dict[str, str]:
    """Varied values in words."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }


def name_condition(values: Mapping[str, object], short: Mapping[str, str]) -> str:
    """The varied values in words; of a sweep that varies nothing but seeds, "all runs"."""
    told = tell_values(values)
    return ", ".join(f"{short.get(name, name)} = {value}" for name, value in told.items()) or "all runs"


def name_letter(place: int) -> str:
    """A, B, …, Z, A2, B2, …"""
    return chr(ord("A") + place % 26) + (str(place // 26 + 1) if place >= 26 else "")


def _read_runs(sweep: Sweep, short: Mapping[str, str]) -> Iterator[RunRow]:
    for run in sweep.runs:
        report, state, problem = None, run.state, ""
        try:
            manifest = read_manifest(run.directory)
            state, problem = manifest.state.value, manifest.note
            report = read_guess_report(run.directory, told=read_told(run.directory)).report
        except (EcumeneError, ManifestError, OSError) as error:
            problem = problem or str(error)
        yield RunRow(run, name_condition(run.values, short), state, report, problem)

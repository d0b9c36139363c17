"""From a sweep's runs to figures by condition and round. One observation is one run: its figure, not its agents'."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecumene.client.errors import EcumeneError
from ecumene.client.records import ManifestError, RunState, read_manifest
from ecumene.sim.recordings import Sweep, SweepRun
from ecumene.sim.reporting.experiment import read_experiment
from ecumene.sim.reporting.report import read_guess_report
from ecumene.sim.reporting.run_page import read_told

MEAN, WINNING_NUMBER = "mean number", "winning number"
"""Figures of the guess game; experiments of one's own have others."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What one run gave.

    Attributes:
        figures: figure -> round -> its value; of the guess game MEAN and WINNING_NUMBER, of an experiment of one's own
            all that are numbers.
        agents, turns, failed, tokens: of the run.
        note: what must be said with them; empty if nothing.
    """

    figures: Mapping[str, Mapping[int, float]]
    agents: int
    turns: int
    failed: int
    tokens: int
    note: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run of a sweep: its condition, where it stands, its figures, and why there are none or it ended early."""

    run: SweepRun
    condition: str
    state: str
    found: RunFigures | None
    problem: str

    @property
    def counts(self) -> bool:
        """Whether it is an observation: it is done, and its rounds could be read."""
        return self.found is not None and self.state == RunState.DONE


@dataclass
class Condition:
    """Runs with the same varied values.

    `figures[name][round]` has one value a run that counts, in the order of replicates.

    `letter` names it in pictures: A is the first, with which others are compared. `values`: field -> value in words.
    """

    name: str
    letter: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    runs: list[RunRow] = field(default_factory=list)
    figures: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def select(self, figure: str) -> Mapping[int, list[float]]:
        """Round -> the values of its runs."""
        return self.figures.get(figure, {})

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
        if not row.counts or row.found is None:
            continue
        for name, by_round in row.found.figures.items():
            for number, value in by_round.items():
                condition.figures.setdefault(name, {}).setdefault(number, []).append(value)
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
        found, state, problem = None, run.state, ""
        try:
            manifest = read_manifest(run.directory)
            state, problem = manifest.state.value, manifest.note
            found = _read_own(run.directory) if manifest.spec.get("experiment") else _read_game(run.directory)
        except (EcumeneError, ManifestError, OSError) as error:
            problem = problem or str(error)
        yield RunRow(run, name_condition(run.values, short), state, found, problem)


def _read_game(directory: Path) -> RunFigures:
    report = read_guess_report(directory, told=read_told(directory)).report
    rows = [row for row in report.rows if row.mean is not None and row.target is not None]
    figures = {
        MEAN: {row.round: row.mean for row in rows if row.mean is not None},
        WINNING_NUMBER: {row.round: row.target for row in rows if row.target is not None},
    }
    failed = sum(count for row in report.rows for count in row.failed.values())
    turns = sum(report.statuses.values())
    return RunFigures(figures, report.agents, turns, failed, report.tokens, report.note)


def _read_own(directory: Path) -> RunFigures:
    report = read_experiment(directory)
    figures = {
        name: {
            row.round: value
            for row, value in zip(report.rows, report.list_numbers(name), strict=True)
            if value is not None
        }
        for name in report.names
    }
    seen = report.overview
    tokens = seen.prompt_tokens + seen.completion_tokens
    return RunFigures(figures, seen.agents, seen.turns, seen.turns_failed, tokens, report.note)

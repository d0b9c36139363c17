"""The report of an experiment of one's own: its figures by round, how turns ended, plot and summary, in one call."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecumene.client.model import Json
from ecumene.client.records import RunManifest, read_manifest
from ecumene.sim.recordings import open_recording
from ecumene.sim.reporting.numbers import ReportError
from ecumene.sim.reporting.overview import Overview, read_overview
from ecumene.sim.reporting.stand_ins import describe_stand_ins
from ecumene.sim.rounds.notes import list_noted
from ecumene.sim.rounds.results import TIME, read_number

SUMMARY_NAME = "summary.json"
PLOT_NAME = "rounds.png"
BOOKKEEPING = frozenset({"round", "generation", "reported", "failed", "until"})
"""Of what a round tells: it stands in columns of its own."""


@dataclass(frozen=True, slots=True)
class ExperimentRound:
    """A round that is over.

    Attributes:
        round: from 1.
        until: the simulated time at which it ended; "" = it was no stretch of time.
        reported, failed, missing: turns of the round; None = it was a stretch of time, and nobody was asked.
        figures: what the behaviour told, and what was read in the world.
    """

    round: int
    until: str
    reported: int | None
    failed: int | None
    missing: int | None
    figures: Mapping[str, Json]


@dataclass(frozen=True)
class ExperimentReport:
    """What a run of an experiment of one's own gave.

    Attributes:
        manifest: of the run.
        rows: one a round.
        overview: turns, models, actions and events of the whole run.
        note: what must be said with the figures; empty if nothing.
        plot: where the picture is; None = there is no number to be drawn.
    """

    manifest: RunManifest
    rows: list[ExperimentRound]
    overview: Overview
    note: str
    plot: Path | None

    @property
    def names(self) -> list[str]:
        """The figures that are numbers in some round, in the order in which they came."""
        found = (name for row in self.rows for name, value in row.figures.items() if read_number(value) is not None)
        return list(dict.fromkeys(found))

    @property
    def is_timed(self) -> bool:
        """Whether its rounds are stretches of simulated time."""
        return any(row.until for row in self.rows)

    def list_numbers(self, name: str) -> list[float | None]:
        """A figure, round by round; None where it is no number."""
        values = [row.figures.get(name) for row in self.rows]
        return [read_number(value) for value in values]

    def to_document(self) -> dict[str, Any]:
        """The report as plain JSON: what `--json` prints and `summary.json` holds."""
        return {
            "run": self.manifest.run,
            "state": self.manifest.state,
            "ended_by": self.manifest.ended_by,
            "seed": self.manifest.seed,
            "world": self.manifest.world,
            "history": self.manifest.history,
            "experiment": self.manifest.spec["experiment"],
            "agents": self.overview.agents,
            "models": [row.model for row in self.overview.models],
            "note": self.note,
            "rounds": [
                {
                    "round": row.round,
                    **({"until": row.until} if row.until else {}),
                    **({} if row.reported is None else {"reported": row.reported, "failed": row.failed}),
                    **({} if row.missing is None else {"missing": row.missing}),
                    "figures": dict(row.figures),
                }
                for row in self.rows
            ],
            "turns": {row.status: row.turns for row in self.overview.statuses},
            "tokens": self.overview.prompt_tokens + self.overview.completion_tokens,
            "latency_ms": dict(self.overview.latency_ms),
            "plot": None if self.plot is None else self.plot.name,
        }


def report_experiment(directory: Path) -> ExperimentReport:
    """Read a run's directory, write `summary.json` and, if there are numbers, `rounds.png`; return the report.

    Works on a run that was killed as on one that ended. Raises ManifestError, RecordingError, ReportError, OSError.
    """
    report = read_experiment(directory)
    if report.plot is not None:
        from ecumene.sim.reporting.experiment_plot import draw_figures  # some tenths of a second

        draw_figures(report.plot, report)
    text = json.dumps(report.to_document(), indent=2, ensure_ascii=False, allow_nan=False, default=str)
    (directory / SUMMARY_NAME).write_text(text + "\n", encoding="utf-8")
    return report


def read_experiment(directory: Path) -> ExperimentReport:
    """Read a run's directory and change nothing. Raises ManifestError, RecordingError, ReportError, OSError."""
    manifest = read_manifest(directory)
    rows = read_rounds(directory)
    if not rows:
        raise ReportError(f"{directory}: no round of this run is over")
    with open_recording([directory]) as recording:
        overview = read_overview(recording)
    note = describe_stand_ins(manifest.spec, [row.model for row in overview.models])
    report = ExperimentReport(manifest, rows, overview, note, directory / PLOT_NAME)
    return report if report.names else ExperimentReport(manifest, rows, overview, note, None)


def read_rounds(directory: Path) -> list[ExperimentRound]:
    """The rounds that were noted. Raises OSError."""
    rows = []
    for noted in list_noted(directory):
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            rows.append(_read_round(noted))
    return rows


def _read_round(noted: Mapping[str, Any]) -> ExperimentRound:
    told: Mapping[str, Any] = noted["figures"]
    until = told.get("until") if noted["gate_cause"] == TIME else None
    is_timed = isinstance(until, str)
    reported, failed = noted["reported"], noted["failed"]
    return ExperimentRound(
        round=noted["round"],
        until=until if isinstance(until, str) else "",
        reported=None if is_timed else reported,
        failed=None if is_timed else failed,
        missing=None if is_timed else max(0, noted["participants"] - reported - failed),
        figures={name: value for name, value in told.items() if name not in BOOKKEEPING},
    )

"""What a run came to, as its caller gets it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.client.records import TABLES, RunManifest, list_parts
from ecumene.sim.asking.intervention_records import read_interventions
from ecumene.sim.reporting import ExperimentReport, GuessReport
from ecumene.sim.rounds.results import RoundResult


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run that played all its rounds.

    Attributes:
        directory: holds its manifest, records, summary and plot.
        manifest: as it stands there.
        rounds: as the world told them.
        report: as the records tell them.
    """

    directory: Path
    manifest: RunManifest
    rounds: tuple[RoundResult, ...]
    report: GuessReport | ExperimentReport

    def to_document(self) -> dict[str, Any]:
        """The report as plain JSON, and beside it what the world told and what was recorded."""
        told = [dataclasses.asdict(result) | {"missing": result.missing} for result in self.rounds]
        return self.report.to_document() | {
            "directory": str(self.directory),
            "plot": None if self.report.plot is None else str(self.report.plot),
            "told": told,
            "recorded": dict(self.manifest.counts),
            "interventions": read_interventions(self.directory),
        }


def count_rows(directory: Path) -> dict[str, int]:
    """Table → recorded rows, from the footers of the parts; one that cannot be read counts none."""
    return {table.name: sum(map(_count_part, list_parts(directory, table))) for table in TABLES}


def _count_part(part: Path) -> int:
    try:
        return int(pq.read_metadata(part).num_rows)
    except (pa.ArrowException, OSError):  # who reads the rows is told
        return 0

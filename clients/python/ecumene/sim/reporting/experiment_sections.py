"""What a page tells of an experiment of one's own."""

from __future__ import annotations

from pathlib import Path

from ecumene.client.records import RunManifest
from ecumene.sim.reporting.experiment import ExperimentReport, read_rounds
from ecumene.sim.reporting.overview import Overview
from ecumene.sim.reporting.page import PageSection, make_image, make_table


def make_experiment_sections(directory: Path, manifest: RunManifest, overview: Overview) -> list[PageSection]:
    """The rounds that are over with their figures; nothing if there is none, or if another game was played.

    Raises OSError.
    """
    rows = [] if manifest.spec.get("experiment") is None else read_rounds(directory)
    if not rows:
        return []
    from ecumene.sim.reporting.experiment_plot import draw_figures

    report = ExperimentReport(manifest, rows, overview, "", None)
    names = report.names
    spread = [name for row in rows for name in row.figures if name not in names]
    images = [
        make_image(
            lambda target, theme: draw_figures(target, report, theme),
            alt=f"{', '.join(names)}, each by round, over {len(rows)} rounds.",
            caption="Figures by round",
        )
    ]
    columns = ("round", "until") if report.is_timed else ("round", "reported", "failed", "missing")
    table = make_table(
        "Rounds",
        (*columns, *names),
        [
            (
                str(row.round),
                *((row.until,) if report.is_timed else (row.reported, row.failed, row.missing)),
                *(row.figures.get(name) for name in names),
            )
            for row in rows
        ],
        texts=2 if report.is_timed else 1,
    )
    texts = [f"{'1 round is' if len(rows) == 1 else f'{len(rows):,} rounds are'} over."]
    if spread:
        texts.append(f"No numbers, and in rounds.jsonl only: {', '.join(dict.fromkeys(spread))}.")
    return [PageSection("Rounds", texts, images if names else [], [table])]

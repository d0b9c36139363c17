"""The page of one run: what was played, if it was the guess game; and of any run how its turns went."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from pathlib import Path

from ecumene.client.records import ManifestError, RunManifest, RunState, digest_turns, read_manifest
from ecumene.client.records.manifest import MANIFEST_NAME
from ecumene.sim.recordings import Recording, RecordingError, open_recording
from ecumene.sim.reporting.asking_sections import make_asking_sections
from ecumene.sim.reporting.experiment_sections import make_experiment_sections
from ecumene.sim.reporting.game_sections import list_game_figures, make_game_sections
from ecumene.sim.reporting.interventions_section import make_interventions_sections
from ecumene.sim.reporting.numbers import ReportError
from ecumene.sim.reporting.overview import PAUSED, Overview, read_overview
from ecumene.sim.reporting.overview_sections import make_overview_sections
from ecumene.sim.reporting.page import (
    Page,
    PageFigure,
    PageNote,
    PageSection,
    make_table,
    show_duration,
    write_page,
)
from ecumene.sim.reporting.population_sections import make_population_sections
from ecumene.sim.reporting.report import GuessReading, read_guess_report
from ecumene.sim.reporting.stand_ins import describe_stand_ins
from ecumene.sim.rounds.notes import list_noted
from ecumene.sim.specs.errors import SpecError

DIGESTED_TURNS_MAX = 100_000
"""The digest of more takes longer than all else of a page."""


def write_run_page(directory: Path, path: Path) -> None:
    """Write the page of a run that ended, was killed or goes on; changes nothing else in its directory.

    Raises RecordingError if nothing is recorded, or a part is damaged; ManifestError, OSError.
    """
    manifest = read_manifest(directory) if (directory / MANIFEST_NAME).exists() else None
    with open_recording([directory]) as recording:
        overview = read_overview(recording)
        if manifest is None and not overview.turns and not overview.events:
            raise RecordingError(f"{directory}: neither a manifest nor any turn or event is here")
        reading, problem = _try_game(directory, manifest, overview, recording)
        asked = make_asking_sections(recording, {} if manifest is None else manifest.spec)
    stand_ins = describe_stand_ins({} if manifest is None else manifest.spec, [row.model for row in overview.models])
    notes = [
        *([PageNote("Stand-ins.", stand_ins)] if stand_ins else []),
        *_note_state(manifest),
        *([PageNote("Incomplete.", problem)] if problem else []),
        *_note_failures(overview),
    ]
    sections = [
        *([] if reading is None else make_game_sections(reading)),
        *([] if manifest is None else make_experiment_sections(directory, manifest, overview)),
        *asked,
        *make_interventions_sections(directory, {} if manifest is None else manifest.spec),
        *([] if manifest is None else make_population_sections(directory, manifest)),
        *make_overview_sections(overview),
        _describe_run(directory, manifest, overview),
    ]
    title = manifest.run if manifest else directory.resolve().name
    figures = [*([] if reading is None else list_game_figures(reading.report)), *_list_figures(manifest, overview)]
    write_page(path, Page(title, _write_subtitle(manifest, overview), directory, notes, sections, figures))


def read_told(directory: Path) -> dict[int, float]:
    """Round -> the winning number that the world told, of the rounds that were noted."""
    told: dict[int, float] = {}
    for noted in list_noted(directory):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if noted["target"] is not None:
                told[int(noted["round"])] = float(noted["target"])
    return told


def _describe_run(directory: Path, manifest: RunManifest | None, overview: Overview) -> PageSection:
    if manifest is None:
        return PageSection(
            "How it was run", [f"There is no {MANIFEST_NAME} here: what is known is what its parts hold."]
        )
    if overview.turns <= DIGESTED_TURNS_MAX:
        digest = digest_turns(directory)
    else:
        digest = f"not computed here, of more than {DIGESTED_TURNS_MAX:,} turns"
    facts = [
        ("state", manifest.state.value + (f": {manifest.note}" if manifest.note else "")),
        ("seed", str(manifest.seed)),
        ("began", manifest.started_at),
        ("ended", manifest.ended_at or "–"),
        ("world", f"{manifest.world or '–'} (history {manifest.history or '–'})"),
        ("digest of turns and actions", digest),
        ("versions", ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items())) or "–"),
    ]
    spec = json.dumps(manifest.spec, indent=2, ensure_ascii=False)
    table = make_table("What was run", ("what", "value"), facts, texts=2)
    return PageSection("How it was run", tables=[table], folded=("The whole spec", spec))


def _try_game(
    directory: Path, manifest: RunManifest | None, overview: Overview, recording: Recording
) -> tuple[GuessReading | None, str]:
    """The guess game of a run, or why there is none to be told of; "" where that needs no word."""
    if manifest is None or not overview.turns_in_rounds or manifest.spec.get("experiment") is not None:
        return None, ""
    try:
        return read_guess_report(directory, told=read_told(directory), opened=recording), ""
    except (SpecError, ReportError, ManifestError) as error:
        return None, f"The rounds are not shown: {error}"


def _list_figures(manifest: RunManifest | None, overview: Overview) -> list[PageFigure]:
    """What any run is asked for first: failures, tokens, money, time."""
    failed = f"{overview.turns_failed:,} of {overview.turns:,}"
    figures = [PageFigure("Turns that failed", failed, _share(overview.turns_failed, overview.turns))]
    if tokens := overview.prompt_tokens + overview.completion_tokens:
        asked = f"; {sum(overview.asked_tokens):,} more for surveys" if any(overview.asked_tokens) else ""
        detail = f"{overview.prompt_tokens:,} sent, {overview.completion_tokens:,} received{asked}"
        figures.append(PageFigure("Tokens of turns", f"{tokens:,}", detail))
    priced = [row.microdollars for row in overview.models if row.microdollars is not None]
    if any(priced):
        unpriced = sum(row.unpriced for row in overview.models)
        detail = f"{unpriced:,} calls have no price" if unpriced else ""
        figures.append(PageFigure("Cost", f"${sum(priced) / 1e6:,.4f}", detail))
    if manifest is not None and manifest.ended_at:
        took = datetime.fromisoformat(manifest.ended_at) - datetime.fromisoformat(manifest.started_at)
        figures.append(PageFigure("Took", show_duration(took.total_seconds()), manifest.started_at[:10]))
    return figures


def _share(some: int, of: int) -> str:
    return f"{some / of:.1%}" if some else ""


def _note_state(manifest: RunManifest | None) -> list[PageNote]:
    if manifest is None or manifest.state is RunState.DONE:
        return []
    if manifest.state is RunState.RUNNING:
        text = (
            "This run has not ended, or was killed: the page tells what was recorded so far. What the last seconds "
            "brought may not be on the disk yet."
        )
        return [PageNote("Not ended.", text)]
    reason = f": {manifest.note}" if manifest.note else ""
    state = manifest.state.value.replace("_", " ")
    text = f"This run ended before its time ({state}{reason}). The page tells what is there."
    return [PageNote("Ended early.", text)]


def _note_failures(overview: Overview) -> list[PageNote]:
    notes = []
    if overview.paused:
        text = (
            f"{overview.paused:,} turns of agents that an intervention had paused were not taken; they are in no mean."
        )
        notes.append(PageNote("Paused.", text))
    if not overview.turns_failed:
        return notes
    failed = [row for row in overview.statuses if not row.acted]
    reasons = [(count, row.status, reason) for row in failed for reason, count in row.reasons if reason != PAUSED]
    told = ""
    if reasons:
        count, status, reason = max(reasons, key=lambda one: one[0])
        told = f" Most often {status} ({count:,}): {reason}."
    share = _share(overview.turns_failed, overview.turns)
    text = (
        f"{overview.turns_failed:,} of {overview.turns:,} turns failed ({share}); "
        f"means are of those that acted.{told} All reasons stand below, under Turns."
    )
    return [*notes, PageNote("Failures.", text)]


def _write_subtitle(manifest: RunManifest | None, overview: Overview) -> str:
    told = [] if manifest is None else [manifest.state.value.replace("_", " "), f"seed {manifest.seed}"]
    asked = [row.model for row in overview.models]
    models = [f"models {', '.join(asked)}"] if asked else []
    return "  ·  ".join([f"{overview.agents:,} agents", f"{overview.turns:,} turns", *models, *told])

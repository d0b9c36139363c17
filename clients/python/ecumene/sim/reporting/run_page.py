"""The page of one run: what was played, if it was the guess game; and of any run how its turns went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ecumene.client.records import ManifestError, RunManifest, RunState, digest_turns, read_manifest
from ecumene.client.records.manifest import MANIFEST_NAME
from ecumene.sim.recordings import Recording, RecordingError, open_recording
from ecumene.sim.reporting.game_sections import make_game_sections
from ecumene.sim.reporting.numbers import ReportError
from ecumene.sim.reporting.overview import Overview, read_overview
from ecumene.sim.reporting.page import Page, PageSection, make_image, make_table, write_page
from ecumene.sim.reporting.report import GuessReading, read_guess_report
from ecumene.sim.reporting.stand_ins import describe_stand_ins
from ecumene.sim.reporting.timeline_plot import draw_timeline
from ecumene.sim.specs.errors import SpecError

ROUNDS_NAME = "rounds.jsonl"
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
        stand_ins = describe_stand_ins(
            {} if manifest is None else manifest.spec, [row.model for row in overview.models]
        )
        notes = [*([stand_ins] if stand_ins else []), *_note_state(manifest)]
        game: list[PageSection] = []
        reading, problem = _try_game(directory, manifest, overview, recording)
        if problem:
            notes.append(problem)
        if reading is not None:
            game = make_game_sections(reading)
    notes += _note_failures(overview)
    sections = [_describe_run(directory, manifest, overview), *game, *make_overview_sections(overview)]
    title = manifest.run if manifest else directory.resolve().name
    write_page(path, Page(title, _write_subtitle(manifest, overview), directory, notes, sections))


def read_told(directory: Path) -> dict[int, float]:
    """Round -> the winning number that the world told, of the rounds that were noted; a line cut short is none."""
    told: dict[int, float] = {}
    try:
        lines = (directory / ROUNDS_NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return told
    for line in lines:
        try:
            noted = json.loads(line)
            if noted["target"] is not None:
                told[int(noted["round"])] = float(noted["target"])
        except (ValueError, KeyError, TypeError):
            continue
    return told


def make_overview_sections(overview: Overview) -> list[PageSection]:
    """Turns, models, and what happened."""
    turns = PageSection(
        "Turns",
        [
            f"{overview.turns:,} turns of {overview.agents:,} agents; {overview.turns_failed:,} of them failed: they "
            "did not do what they were woken for, and are counted here and in no mean."
        ],
        [
            make_image(
                lambda target: draw_timeline(target, overview), alt=_tell_timeline(overview), caption="Turns over time"
            )
        ]
        if overview.turns
        else [],
        [
            make_table("How turns ended, and why", ("status", "reason", "turns"), _list_statuses(overview), texts=2),
            make_table(
                "By group of the population",
                ("group", "agents", "turns", "failed", "tokens", "median latency, ms"),
                [
                    (row.group or "(none)", row.agents, row.turns, row.turns - row.acted, row.tokens, row.latency_ms)
                    for row in overview.groups
                ],
            ),
            make_table(
                "Latency of turns that acted, from the waking event to the outcome",
                ("percentile", "ms"),
                list(overview.latency_ms.items()),
            ),
            make_table(
                "What was noticed in answers", ("flag", "turns"), [(row.name, row.count) for row in overview.flags]
            ),
        ],
    )
    happened = PageSection(
        "Actions and events",
        tables=[
            make_table(
                "Actions, and how many took effect",
                ("action", "decided", "took effect"),
                [(row.name, row.count, row.effective) for row in overview.actions],
            ),
            make_table("Events of the world", ("type", "events"), [(row.name, row.count) for row in overview.events]),
        ],
    )
    sections = [turns, _describe_models(overview), happened]
    return [_drop_empty(section) for section in sections]


def _describe_models(overview: Overview) -> PageSection:
    rows = [
        (
            row.model,
            row.calls,
            row.failed,
            row.cached,
            row.prompt_tokens,
            row.completion_tokens,
            None if row.microdollars is None else f"{row.microdollars / 1e6:,.4f}",
            row.unpriced,
            *(row.latency_ms.get(name) for name in ("p50", "p95", "p99")),
        )
        for row in overview.models
    ]
    texts = [f"{overview.prompt_tokens:,} tokens sent and {overview.completion_tokens:,} received in all turns."]
    if not rows:
        texts.append("No call of a model is recorded.")
    columns = ("model", "calls", "failed", "cached", "tokens sent", "received", "dollars", "calls without price")
    table = make_table("Calls of models", (*columns, "p50, ms", "p95, ms", "p99, ms"), rows)
    return PageSection("Models, tokens and cost", texts, tables=[table])


def _describe_run(directory: Path, manifest: RunManifest | None, overview: Overview) -> PageSection:
    if manifest is None:
        return PageSection("The run", [f"There is no {MANIFEST_NAME} here: what is known is what its parts hold."])
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
    return PageSection("The run", tables=[table], folded=("The whole spec", spec))


def _try_game(
    directory: Path, manifest: RunManifest | None, overview: Overview, recording: Recording
) -> tuple[GuessReading | None, str]:
    """The guess game of a run, or why there is none to be told of; "" where that needs no word."""
    if manifest is None or not overview.turns_in_rounds:
        return None, ""
    try:
        return read_guess_report(directory, told=read_told(directory), opened=recording), ""
    except (SpecError, ReportError, ManifestError) as error:
        return None, f"The rounds are not shown: {error}"


def _note_state(manifest: RunManifest | None) -> list[str]:
    if manifest is None or manifest.state is RunState.DONE:
        return []
    if manifest.state is RunState.RUNNING:
        return [
            "This run has not ended, or was killed: the page tells what was recorded so far. What the last seconds "
            "brought may not be on the disk yet."
        ]
    reason = f": {manifest.note}" if manifest.note else ""
    return [
        f"This run ended before its time ({manifest.state.value.replace('_', ' ')}{reason}). "
        "The page tells what is there."
    ]


def _note_failures(overview: Overview) -> list[str]:
    if not overview.turns_failed:
        return []
    return [
        f"{overview.turns_failed:,} of {overview.turns:,} turns failed; means are of those that acted. Reasons: Turns."
    ]


def _list_statuses(overview: Overview) -> list[tuple[str, str, int]]:
    rows = []
    for row in overview.statuses:
        rows += [(row.status, reason, count) for reason, count in row.reasons]
        if row.other_reasons:
            rows.append((row.status, "(other reasons)", row.other_reasons))
        if without := row.turns - row.other_reasons - sum(count for _, count in row.reasons):
            rows.append((row.status, "–", without))
    return rows


def _tell_timeline(overview: Overview) -> str:
    return (
        f"Turns begun over {overview.starts_s[-1]:.1f} seconds: {overview.turns - overview.turns_failed:,} that acted "
        f"and {overview.turns_failed:,} that failed."
    )


def _write_subtitle(manifest: RunManifest | None, overview: Overview) -> str:
    parts: Mapping[str, str] = {} if manifest is None else {"state": manifest.state.value, "seed": str(manifest.seed)}
    told = [f"{name} {value}" for name, value in parts.items()]
    return "  ·  ".join([*told, f"{overview.agents:,} agents", f"{overview.turns:,} turns"])


def _drop_empty(section: PageSection) -> PageSection:
    """Without tables that have no rows."""
    tables = [table for table in section.tables if table.rows]
    return PageSection(section.title, section.texts, section.images, tables, section.folded)

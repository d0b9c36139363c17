"""The report of a guess game's run: figures, comparison, plot, summary, in one call."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ecumene.client.records import RunManifest, read_manifest
from ecumene.sim.asking.intervention_records import find_rules, read_interventions
from ecumene.sim.populations.population import Population, build_groups
from ecumene.sim.reporting.numbers import GuessRecording, ReportError, read_guess, read_guess_recording
from ecumene.sim.reporting.references import Reference, list_references
from ecumene.sim.reporting.rounds import RoundRow, count_names, is_acting, summarise_rounds
from ecumene.sim.reporting.stand_ins import describe_stand_ins
from ecumene.sim.rounds.guests import GUESTS
from ecumene.sim.specs.game import GameSpec
from ecumene.sim.specs.spec import RunSpec, parse_spec

if TYPE_CHECKING:
    from ecumene.sim.recordings import Recording
    from ecumene.sim.reporting.theme import Theme

SUMMARY_NAME = "summary.json"
PLOT_NAME = "rounds.png"
WINNING_NUMBER = "winning number"
"""Where it is not the same formula in all rounds."""


@dataclass(frozen=True)
class GuessReport:
    """What a run of the guess game gave.

    Attributes:
        manifest: of the run.
        spec: as its manifest has it.
        agents, groups: the size of the population, and of its groups.
        guests: round -> those who had a turn in it and are not of the population.
        rows: one a round.
        references: what the rows are compared with.
        statuses: status -> turns of the whole run.
        reasons: status of turns that did not act -> the reason that most of them have, and how many.
        tokens: sent and received in the whole run.
        latency_ms: percentile (`p50`, `p99`) -> of turns.
        models: the models that were asked; empty if only rules played.
        note: what must be said with the figures; empty if nothing.
        subtitle: who played, in a line.
        plot: where the picture is.
        changed: round -> ratio and offset, where an intervention has changed them.
        marks: the first round that interventions could have changed -> their names.
    """

    manifest: RunManifest
    spec: RunSpec
    agents: int
    groups: Mapping[str, int]
    guests: Mapping[int, int]
    rows: list[RoundRow]
    references: list[Reference]
    statuses: Mapping[str, int]
    reasons: Mapping[str, tuple[str, int]]
    tokens: int
    latency_ms: Mapping[str, float]
    models: list[str]
    note: str
    subtitle: str
    plot: Path
    changed: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    marks: Mapping[int, str] = field(default_factory=dict)

    @property
    def game(self) -> GameSpec:
        """What was played."""
        return self.spec.game

    def count_players(self, round_number: int) -> int:
        """Agents of the run, and guests of a round."""
        return self.agents + self.guests.get(round_number, 0)

    def to_document(self) -> dict[str, Any]:
        """The report as plain JSON: what `--json` prints and `summary.json` holds."""
        rows = [
            {
                **dataclasses.asdict(row),
                "failed": row.failed,
                "guests": self.guests.get(row.round, 0),
                "turnless": max(0, self.count_players(row.round) - row.turns),
            }
            for row in self.rows
        ]
        return {
            "run": self.manifest.run,
            "state": self.manifest.state,
            "ended_by": self.manifest.ended_by,
            "seed": self.manifest.seed,
            "world": self.manifest.world,
            "history": self.manifest.history,
            "game": self.game.model_dump(mode="json"),
            "population": {"agents": self.agents, "groups": dict(self.groups)},
            "models": self.models,
            "note": self.note,
            "rounds": rows,
            "changed_rules": {str(number): list(rules) for number, rules in self.changed.items()},
            "turns": dict(self.statuses),
            "reasons": {status: {"reason": text, "turns": count} for status, (text, count) in self.reasons.items()},
            "tokens": self.tokens,
            "latency_ms": dict(self.latency_ms),
            "references": [dataclasses.asdict(reference) for reference in self.references],
            "plot": self.plot.name,
        }


@dataclass(frozen=True)
class GuessReading:
    """A report with what it was made from; `groups` has the group of each agent of the recording."""

    report: GuessReport
    recording: GuessRecording
    groups: Mapping[str, str]
    group_order: Sequence[str]

    def draw(self, target: Path | IO[bytes], theme: Theme | None = None) -> None:
        """Draw the picture of the rounds: a PNG with its title, or in the colours of a page as SVG. Raises OSError."""
        # Some tenths of a second, which a run's start need not wait for.
        from ecumene.sim.reporting.plot import RoundsPicture, draw_rounds

        report = self.report
        shown = RoundsPicture(
            self.recording,
            report.rows,
            WINNING_NUMBER if report.changed else f"{WINNING_NUMBER}, {describe_winning(report)}",
            report.references,
            self.groups,
            self.group_order,
            report.marks,
            "" if theme else f"Guess the average: nearest to {describe_target(report.game)} wins",
            "" if theme else report.subtitle,
        )
        if theme is None:
            draw_rounds(target, shown)
        else:
            draw_rounds(target, shown, theme=theme, file_format="svg")


def report_guess_run(directory: Path, *, told: Mapping[int, float] | None = None) -> GuessReport:
    """Read a run's directory, write `summary.json` and `rounds.png` into it, and return the report.

    Works on a run that was killed as on one that ended. `told` gives the winning numbers that the world
    told, by round. Raises ManifestError, SpecError, ReportError, OSError.
    """
    reading = read_guess_report(directory, told=told)
    reading.draw(reading.report.plot)
    text = json.dumps(reading.report.to_document(), indent=2, ensure_ascii=False, allow_nan=False)
    (directory / SUMMARY_NAME).write_text(text + "\n", encoding="utf-8")
    return reading.report


def read_guess_report(
    directory: Path, *, told: Mapping[int, float] | None = None, opened: Recording | None = None
) -> GuessReading:
    """Read a run's directory and change nothing; `opened`: its recording, if it is open already.

    Raises ManifestError, SpecError, ReportError, OSError; of an open recording RecordingError.
    """
    manifest = read_manifest(directory)
    spec = parse_spec(manifest.spec, source=f"{directory}: spec of the manifest")
    if spec.experiment is not None:
        raise ReportError(f"{directory}: here no guess game was played, but an experiment of one's own")
    population = build_groups(spec.population, spec.seed)
    recording = read_guess_recording(directory) if opened is None else read_guess(opened, str(directory))
    ratio, offset, rounds = spec.game.ratio, spec.game.offset, spec.game.rounds
    changed = find_rules(directory, ratio=ratio, offset=offset, rounds=rounds)
    names = [group.name for group in population.groups]
    groups = dict(zip(population.name_agents(), (names[code] for code in population.codes), strict=True))
    teams = groups if spec.game.players == "groups" else None
    rows = summarise_rounds(recording, ratio=ratio, offset=offset, told=told, changed=changed, teams=teams)
    references = list_references(ratio=ratio, offset=offset, rounds=rounds, given=spec.references)
    guests = {} if spec.game.guests is None else count_guests(recording, population)
    asked = ", ".join(recording.models) or describe_classes(population)
    report = GuessReport(
        manifest=manifest,
        spec=spec,
        agents=len(population),
        groups=population.counts,
        guests=guests,
        rows=rows,
        references=[keep_rounds(one, before=min(changed)) for one in references] if changed else references,
        statuses=count_names(recording.statuses, recording.turn_statuses),
        reasons={status: told for status, told in recording.reasons.items() if not is_acting(status)},
        tokens=int(recording.turn_tokens.sum()),
        latency_ms={f"p{share}": float(np.percentile(recording.turn_latency_ms, share)) for share in (50, 99)},
        models=recording.models,
        note=describe_stand_ins(manifest.spec, recording.models),
        subtitle=f"population {len(population):,}  ·  seed {manifest.seed}  ·  {asked}  ·  run {manifest.run}",
        plot=directory / PLOT_NAME,
        changed=changed,
        marks=name_interventions(directory),
    )
    order = [name for name, count in population.counts.items() if count]
    if guests:
        groups.update((name, GUESTS) for name in recording.agents if name not in groups)
        order.append(GUESTS)
    return GuessReading(report, recording, groups, order)


def describe_winning(report: GuessReport) -> str:
    """What the winning number is called: its formula, where it is the same in all rounds."""
    return WINNING_NUMBER if report.changed else describe_target(report.game)


def name_interventions(directory: Path) -> dict[int, str]:
    """The first round that interventions could have changed -> their names."""
    found: dict[int, list[str]] = {}
    for done in read_interventions(directory):
        if isinstance(done.get("from_round"), int):
            found.setdefault(done["from_round"], []).append(str(done.get("name")))
    return {number: ", ".join(names) for number, names in found.items()}


def keep_rounds(reference: Reference, *, before: int) -> Reference:
    """A reference for the rounds that were played by the rules that it knows."""
    means = {number: mean for number, mean in reference.means.items() if number < before}
    return dataclasses.replace(reference, means=means)


def count_guests(recording: GuessRecording, population: Population) -> dict[int, int]:
    """Round -> those who had a turn in it and are not of the population; rounds without any are left out."""
    agents = set(population.name_agents())
    is_guest = np.array([name not in agents for name in recording.agents], dtype=bool)
    rounds, counts = np.unique(recording.turn_rounds[is_guest[recording.turn_agents]], return_counts=True)
    return dict(zip(rounds.tolist(), counts.tolist(), strict=True))


def describe_classes(population: Population) -> str:
    """What decides where no model does."""
    own = sorted({group.agent for group in population.groups if not group.is_ready})
    return ", ".join(own) or "rule agents, not a reproduction"


def describe_target(game: GameSpec) -> str:
    """The target as a formula, such as `2/3 × mean`."""
    fraction = Fraction(game.ratio).limit_denominator(100)
    share = str(fraction) if abs(float(fraction) - game.ratio) < 1e-9 else f"{game.ratio:g}"
    shift = f" {'+' if game.offset > 0 else '−'} {abs(game.offset):g}" if game.offset else ""
    return f"{share} × mean{' of groups' if game.players == 'groups' else ''}{shift}"

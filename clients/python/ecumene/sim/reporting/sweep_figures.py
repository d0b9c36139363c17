"""What a sweep's page tells of experiments of one's own: each figure, in its last round, by condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ecumene.client.errors import EcumeneError
from ecumene.client.records import ManifestError, RunState, read_manifest
from ecumene.sim.recordings import Sweep, SweepRun
from ecumene.sim.reporting.experiment import ExperimentRound, is_number, read_rounds
from ecumene.sim.reporting.page import PageSection, make_image, make_table
from ecumene.sim.reporting.statistics import EFFECT_METHOD, INTERVAL_METHOD, compare_means, estimate_mean
from ecumene.sim.reporting.sweep_plot import draw_conditions
from ecumene.sim.reporting.sweep_reading import Condition, name_condition, name_letter, shorten_fields, tell_values

FIGURES_SHOWN_MAX = 8
OBSERVATION = (
    "One observation is one run: n is the number of runs, never of agents. Runs that are not done are in no mean."
)


@dataclass(frozen=True, slots=True)
class _Played:
    run: SweepRun
    state: str
    problem: str
    rounds: Sequence[ExperimentRound]


def make_figure_sections(sweep: Sweep) -> list[PageSection]:
    """A section a figure, and the list of runs."""
    played = [_read(run) for run in sweep.runs]
    done = [one for one in played if one.state == RunState.DONE]
    names = dict.fromkeys(
        name for one in done for row in one.rounds for name, value in row.figures.items() if is_number(value)
    )
    shown = list(names)[:FIGURES_SHOWN_MAX]
    sections = [_show_figure(sweep, done, name, explains=name == shown[0]) for name in shown]
    if left := len(names) - FIGURES_SHOWN_MAX:
        sections += [PageSection("Further figures", [f"{left} more are in the runs' own pages."])] if left > 0 else []
    rows = [
        (_name(sweep, one.run), str(one.run.replicate), one.run.run, str(one.run.seed), one.state, one.problem or "–")
        for one in played
    ]
    columns = ("condition", "replicate", "run", "seed", "state", "why")
    return [*sections, PageSection("Runs", tables=[make_table("Every run of the sweep", columns, rows, texts=6)])]


def list_conditions(sweep: Sweep) -> list[str]:
    """The conditions in words, in the order of the runs."""
    return list(dict.fromkeys(_name(sweep, run) for run in sweep.runs))


def _show_figure(sweep: Sweep, done: Sequence[_Played], name: str, *, explains: bool) -> PageSection:
    conditions = list(_group(sweep, done, name).values())
    first = conditions[0]
    rows = []
    for condition in conditions:
        last = max(condition.means)
        mean = estimate_mean(condition.means[last])
        shared = condition is not first and last in first.means
        effect = compare_means(condition.means[last], first.means[last]) if shared else None
        compared = (None, None) if effect is None else (effect.difference, effect.g)
        letter = f"{condition.letter}: {condition.name}"
        rows.append((letter, str(last), mean.count, mean.mean, mean.std, mean.low, mean.high, *compared))
    columns = ("condition", "round", "runs", "mean", "std", "95 % from", "95 % to", f"less {first.letter}", "g")
    image = make_image(
        lambda target, theme: draw_conditions(target, conditions, theme),
        alt=f"{name} by round, a line for each of {len(conditions)} conditions.",
        caption=f"{name} by round, mean of runs",
    )
    texts = [] if not explains else [OBSERVATION, f"Intervals: {INTERVAL_METHOD}. Effect sizes: {EFFECT_METHOD}."]
    return PageSection(name, texts, [image], [make_table(f"{name} in the last round", columns, rows, texts=2)])


def _group(sweep: Sweep, done: Sequence[_Played], name: str) -> Mapping[str, Condition]:
    """The conditions that have a figure, with its values by round."""
    conditions: dict[str, Condition] = {}
    for one in done:
        values = {row.round: row.figures.get(name) for row in one.rounds}
        numbers = {number: float(value) for number, value in values.items() if is_number(value)}  # type: ignore[arg-type]
        if not numbers:
            continue
        told = _name(sweep, one.run)
        made = Condition(told, name_letter(len(conditions)), tell_values(one.run.values))
        condition = conditions.setdefault(told, made)
        for number, value in numbers.items():
            condition.means.setdefault(number, []).append(value)
    return conditions


def _name(sweep: Sweep, run: SweepRun) -> str:
    return name_condition(run.values, shorten_fields(sweep.varied))


def _read(run: SweepRun) -> _Played:
    try:
        manifest = read_manifest(run.directory)
        return _Played(run, manifest.state.value, manifest.note, read_rounds(run.directory))
    except (EcumeneError, ManifestError, OSError) as error:
        return _Played(run, run.state, str(error), ())

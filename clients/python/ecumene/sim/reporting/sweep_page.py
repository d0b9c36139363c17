"""The page of a sweep: conditions beside each other, with intervals over runs and effect sizes between conditions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ecumene.sim.recordings import Sweep, read_sweep
from ecumene.sim.reporting.page import Page, PageSection, make_image, make_table, show, write_page
from ecumene.sim.reporting.statistics import EFFECT_METHOD, INTERVAL_METHOD, compare_means, estimate_mean
from ecumene.sim.reporting.sweep_plot import CONDITIONS_SHOWN_MAX, draw_conditions
from ecumene.sim.reporting.sweep_reading import Condition, read_conditions

OBSERVATION = (
    "One observation is one run: the mean of the numbers of its round. Agents of one run hear of each other and are "
    "not independent, so n is the number of runs, never of agents."
)


def write_sweep_page(directory: Path, path: Path) -> None:
    """Write the page of a sweep that is done, or goes on. Raises RecordingError, OSError."""
    sweep = read_sweep(directory)
    conditions = read_conditions(sweep)
    sections = [
        _describe_sweep(sweep, conditions),
        _show_means(conditions),
        _show_effects(conditions),
        _list_runs(directory, conditions),
    ]
    counted = sum(condition.counted for condition in conditions)
    subtitle = f"sweep  ·  {sweep.state}  ·  {len(conditions):,} conditions  ·  {counted:,} of {len(sweep.runs):,} runs"
    write_page(path, Page(sweep.name, subtitle, directory, _write_notes(sweep, conditions), sections))


def _write_notes(sweep: Sweep, conditions: Sequence[Condition]) -> list[str]:
    notes = {row.report.note for condition in conditions for row in condition.runs if row.report and row.report.note}
    told = sorted(notes)
    counted = sum(condition.counted for condition in conditions)
    if left_out := len(sweep.runs) - counted:
        told.append(
            f"{left_out:,} of {len(sweep.runs):,} runs are not done, failed, or cannot be read. They are in no mean; "
            "each is listed below with its reason."
        )
    if sweep.ended_at is None:
        told.append("This sweep has not ended, or was stopped: the page tells what was recorded so far.")
    return told


def _describe_sweep(sweep: Sweep, conditions: Sequence[Condition]) -> PageSection:
    facts = [
        ("state", sweep.state),
        ("began", sweep.started_at),
        ("ended", sweep.ended_at or "–"),
        ("varied", ", ".join(sweep.varied) or "only the seed"),
        ("runs", f"{len(sweep.runs):,} in {len(conditions):,} conditions"),
    ]
    spec = json.dumps(sweep.spec, indent=2, ensure_ascii=False)
    return PageSection(
        "The sweep",
        tables=[make_table("What was run", ("what", "value"), facts, texts=2)],
        folded=("The whole spec", spec),
    )


def _show_means(conditions: Sequence[Condition]) -> PageSection:
    """Means by condition and round."""
    rows: list[tuple[object, ...]] = []
    for condition in conditions:
        for number in sorted(condition.means):
            mean = estimate_mean(condition.means[number])
            target = estimate_mean(condition.targets[number])
            runs = f"{mean.count:,} of {len(condition.runs):,}"
            rows.append(
                (
                    condition.name,
                    str(number),
                    runs,
                    mean.mean,
                    mean.std,
                    mean.low,
                    mean.high,
                    target.mean,
                    mean.note or "–",
                )
            )
        if not condition.means:
            rows.append((condition.name, "–", f"0 of {len(condition.runs):,}", *[None] * 5, "no run is done"))
    columns = ("condition", "round", "runs", "mean", "std of runs", "95 % from", "95 % to", "winning number", "remark")
    texts = [OBSERVATION, f"Intervals: {INTERVAL_METHOD}."]
    drawn = [condition for condition in conditions if condition.means]
    if not drawn:
        return PageSection("Means by condition", texts, tables=[make_table("Means", columns, rows, texts=3, remarks=1)])
    caption = "Mean by round, with 95 % intervals over runs where there are two or more."
    if len(drawn) > CONDITIONS_SHOWN_MAX:
        caption += f" The first {CONDITIONS_SHOWN_MAX} of {len(drawn)} conditions; the table has all."
    image = make_image(lambda target: draw_conditions(target, drawn), alt=_tell(drawn), caption=caption)
    return PageSection(
        "Means by condition", texts, [image], [make_table("Means of runs", columns, rows, texts=3, remarks=1)]
    )


def _show_effects(conditions: Sequence[Condition]) -> PageSection:
    """Each condition beside the first, in the first and the last round that both have."""
    if len(conditions) < 2:
        return PageSection("Effect sizes", ["There is one condition: nothing to compare."])
    first, *others = conditions
    rows: list[tuple[object, ...]] = []
    for condition in others:
        shared = sorted(set(first.means) & set(condition.means))
        if not shared:
            rows.append((condition.name, "–", *[None] * 4, "no round that both conditions have"))
        for number in dict.fromkeys((*shared[:1], *shared[-1:])):
            effect = compare_means(condition.means[number], first.means[number])
            figures = (effect.difference, effect.g, effect.low, effect.high)
            rows.append((condition.name, str(number), *figures, effect.note or "–"))
    columns = ("condition", "round", "difference of means", "g", "95 % from", "95 % to", "remark")
    texts = [
        f"Compared with: {first.name}. {EFFECT_METHOD}. Each interval is for itself, not adjusted for their number."
    ]
    return PageSection(
        "Effect sizes", texts, tables=[make_table("Against the first condition", columns, rows, texts=2, remarks=1)]
    )


def _list_runs(directory: Path, conditions: Sequence[Condition]) -> PageSection:
    rows: list[tuple[object, ...]] = []
    for condition in conditions:
        for row in condition.runs:
            failed = None
            last = None
            if row.report is not None:
                failed = sum(count for played in row.report.rows for count in played.failed.values())
                last = row.report.rows[-1].mean if row.report.rows else None
            why = row.problem or "–"
            place = row.run.directory.relative_to(directory)
            seed = str(row.run.seed)
            rows.append(
                (condition.name, str(row.run.replicate), row.run.run, seed, row.state, str(place), why, failed, last)
            )
    columns = ("condition", "replicate", "run", "seed", "state", "directory", "why", "failed turns", "last mean")
    return PageSection("Runs", tables=[make_table("Every run of the sweep", columns, rows, texts=7)])


def _tell(conditions: Sequence[Condition]) -> str:
    told = []
    for condition in conditions[:CONDITIONS_SHOWN_MAX]:
        last = max(condition.means)
        told.append(f"{condition.name}: {show(estimate_mean(condition.means[last]).mean)} in round {last}")
    return "Means of runs by round and condition: " + "; ".join(told)

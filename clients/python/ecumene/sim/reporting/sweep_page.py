"""The page of a sweep: conditions beside each other, with intervals over runs and effect sizes between conditions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ecumene.sim.recordings import Sweep, read_sweep
from ecumene.sim.reporting.page import (
    Page,
    PageFigure,
    PageNote,
    PageSection,
    PageTable,
    make_image,
    make_table,
    show,
    show_duration,
    write_page,
)
from ecumene.sim.reporting.statistics import EFFECT_METHOD, INTERVAL_METHOD, Estimate, compare_means, estimate_mean
from ecumene.sim.reporting.sweep_figures import list_conditions, make_figure_sections
from ecumene.sim.reporting.sweep_plot import CONDITIONS_SHOWN_MAX, EffectLine, draw_conditions, draw_effects
from ecumene.sim.reporting.sweep_reading import Condition, read_conditions, shorten_fields

OBSERVATION = (
    "One observation is one run: the mean of the numbers of its round. Agents of one run hear of each other and are "
    "not independent, so n is the number of runs, never of agents."
)
Row = tuple[object, ...]


def write_sweep_page(directory: Path, path: Path) -> None:
    """Write the page of a sweep that is done, or goes on. Raises RecordingError, OSError."""
    sweep = read_sweep(directory)
    if sweep.spec.get("experiment") is not None:
        names = list_conditions(sweep)
        subtitle = f"sweep of {len(sweep.runs):,} runs in {len(names):,} conditions  ·  {sweep.state}"
        sections = [*make_figure_sections(sweep), _describe_sweep(sweep, [Condition(name) for name in names])]
        write_page(path, Page(sweep.name, subtitle, directory, [], sections))
        return
    conditions = read_conditions(sweep)
    sections = [
        _show_means(sweep, conditions),
        _show_effects(conditions),
        _list_runs(conditions),
        _describe_sweep(sweep, conditions),
    ]
    subtitle = f"sweep of {len(sweep.runs):,} runs in {len(conditions):,} conditions  ·  {sweep.state}"
    notes, figures = _write_notes(sweep, conditions), _list_figures(sweep, conditions)
    write_page(path, Page(sweep.name, subtitle, directory, notes, sections, figures))


def _write_notes(sweep: Sweep, conditions: Sequence[Condition]) -> list[PageNote]:
    told = {row.report.note for condition in conditions for row in condition.runs if row.report and row.report.note}
    notes = [PageNote("Stand-ins.", note) for note in sorted(told)]
    counted = sum(condition.counted for condition in conditions)
    if left_out := len(sweep.runs) - counted:
        text = (
            f"{left_out:,} of {len(sweep.runs):,} runs are not done, failed, or cannot be read. They are in no mean; "
            "each is listed below with its reason."
        )
        notes.append(PageNote("Incomplete.", text))
    if sweep.ended_at is None:
        text = "This sweep has not ended, or was stopped: the page tells what was recorded so far."
        notes.append(PageNote("Not ended.", text))
    return notes


def _list_figures(sweep: Sweep, conditions: Sequence[Condition]) -> list[PageFigure]:
    """What there is to see at once."""
    counted = [row for condition in conditions for row in condition.runs if row.counts and row.report is not None]
    figures = [
        PageFigure("Runs that count", f"{len(counted):,} of {len(sweep.runs):,}"),
        PageFigure("Conditions", f"{len(conditions):,}", ", ".join(shorten_fields(sweep.varied).values())),
    ]
    sizes = sorted({row.report.agents for row in counted if row.report})
    if sizes:
        figures.append(
            PageFigure("Agents a run", f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} – {sizes[-1]:,}")
        )
        reports = [row.report for row in counted if row.report]
        failed = sum(count for report in reports for row in report.rows for count in row.failed.values())
        turns = sum(count for report in reports for count in report.statuses.values())
        figures.append(PageFigure("Turns that failed", f"{failed:,} of {turns:,}"))
        if tokens := sum(report.tokens for report in reports):
            figures.append(PageFigure("Tokens of turns", f"{tokens:,}"))
    if sweep.ended_at is not None:
        took = datetime.fromisoformat(sweep.ended_at) - datetime.fromisoformat(sweep.started_at)
        figures.append(PageFigure("Took", show_duration(took.total_seconds()), sweep.started_at[:10]))
    return figures


def _describe_sweep(sweep: Sweep, conditions: Sequence[Condition]) -> PageSection:
    short = shorten_fields(sweep.varied)
    facts = [
        ("state", sweep.state),
        ("began", sweep.started_at),
        ("ended", sweep.ended_at or "–"),
        *((f"varied: {short[name]}", name) for name in sweep.varied),
        *([] if short else [("varied", "only the seed")]),
        ("runs", f"{len(sweep.runs):,} in {len(conditions):,} conditions"),
    ]
    spec = json.dumps(sweep.spec, indent=2, ensure_ascii=False)
    table = make_table("What was run", ("what", "value"), facts, texts=2)
    return PageSection("How it was run", tables=[table], folded=("The whole spec", spec))


def _show_means(sweep: Sweep, conditions: Sequence[Condition]) -> PageSection:
    """Means by condition: the first and the last round at once, all rounds folded."""
    texts = [OBSERVATION, f"Intervals: {INTERVAL_METHOD}."]
    tables = [_tabulate_conditions(sweep, conditions), _tabulate_rounds(conditions)]
    drawn = [condition for condition in conditions if condition.means]
    if not drawn:
        return PageSection("Means by condition", texts, tables=tables)
    caption = "Mean by round, with 95 % intervals over runs where there are two or more."
    if len(drawn) > CONDITIONS_SHOWN_MAX:
        caption += f" The first {CONDITIONS_SHOWN_MAX} of {len(drawn)} conditions; the tables have all."
    image = make_image(
        lambda target, theme: draw_conditions(target, drawn, theme),
        alt=_tell(drawn),
        caption=caption,
        legend=[(condition.letter, condition.name) for condition in drawn[:CONDITIONS_SHOWN_MAX]],
    )
    return PageSection("Means by condition", texts, [image], tables)


def _tabulate_conditions(sweep: Sweep, conditions: Sequence[Condition]) -> PageTable:
    """A line a condition: its values, its runs, first and last round."""
    short = shorten_fields(sweep.varied)
    rounds = sorted({number for condition in conditions for number in condition.means})
    ends = list(dict.fromkeys((*rounds[:1], *rounds[-1:])))
    rows: list[Row] = []
    for condition in conditions:
        cells: list[object] = [condition.letter, *(condition.values.get(name, "–") for name in short)]
        estimates = [estimate_mean(condition.means.get(number, [])) for number in ends]
        cells += [cell for one in estimates for cell in (one.mean, _show_interval(one))]
        last = condition.targets.get(ends[-1], []) if ends else []
        notes = dict.fromkeys(one.note for one in estimates if one.note and one.count)
        remark = ", ".join(notes) or ("–" if condition.means else "no run is done")
        cells += [estimate_mean(last).mean, f"{condition.counted:,} of {len(condition.runs):,}", remark]
        rows.append(tuple(cells))
    named = [name for number in ends for name in (f"mean, round {number}", "95 % interval")]
    columns = ("", *short.values(), *named, "winning number, last round", "runs", "remark")
    return make_table("Conditions", columns, rows, texts=1 + len(short), remarks=1)


def _tabulate_rounds(conditions: Sequence[Condition]) -> PageTable:
    rows: list[Row] = []
    for condition in conditions:
        for number in sorted(condition.means):
            mean, target = estimate_mean(condition.means[number]), estimate_mean(condition.targets[number])
            figures = (mean.mean, mean.std, mean.low, mean.high, target.mean)
            told = (condition.letter, condition.name, str(number), f"{mean.count:,} of {len(condition.runs):,}")
            rows.append((*told, *figures, mean.note or "–"))
    columns = (
        "",
        "condition",
        "round",
        "runs",
        "mean",
        "std of runs",
        "95 % from",
        "95 % to",
        "winning number",
        "remark",
    )
    return make_table("Means of runs in every round", columns, rows, texts=3, remarks=1, is_folded=True)


def _show_interval(estimate: Estimate) -> str:
    return "–" if estimate.low is None else f"{show(estimate.low)} to {show(estimate.high)}"


def _show_effects(conditions: Sequence[Condition]) -> PageSection:
    """Each condition beside the first, in the first and the last round that both have."""
    if len(conditions) < 2:
        return PageSection("Effect sizes", ["There is one condition: nothing to compare."])
    first, *others = conditions
    rows: list[Row] = []
    lines: list[EffectLine] = []
    for place, condition in enumerate(others, start=1):
        shared = sorted(set(first.means) & set(condition.means))
        if not shared:
            rows.append((condition.letter, condition.name, "–", *[None] * 4, "no round that both conditions have"))
        for number in dict.fromkeys((*shared[:1], *shared[-1:])):
            effect = compare_means(condition.means[number], first.means[number])
            lines.append(EffectLine(condition.letter, place, number, effect))
            figures = (effect.difference, effect.g, effect.low, effect.high)
            rows.append((condition.letter, condition.name, str(number), *figures, effect.note or "–"))
    columns = ("", "condition", "round", "difference of means", "g", "95 % from", "95 % to", "remark")
    texts = [
        f"Compared with A: {first.name}. {EFFECT_METHOD}. Each interval is for itself, not adjusted for their number."
    ]
    images = []
    if drawn := [one for one in lines if one.effect.g is not None]:
        told = "; ".join(f"{one.letter} in round {one.round}: {show(one.effect.g)}" for one in drawn[:10])
        caption = "Points: g. Lines: 95 % intervals, where one can be computed."
        alt = f"Hedges' g against A: {told}"
        images.append(make_image(lambda target, theme: draw_effects(target, lines, theme), alt=alt, caption=caption))
    table = make_table("Against the first condition", columns, rows, texts=3, remarks=1)
    return PageSection("Effect sizes", texts, images, [table])


def _list_runs(conditions: Sequence[Condition]) -> PageSection:
    """Those that are in no mean at once, all of them folded."""
    columns = ("", "condition", "replicate", "run", "seed", "state", "failed turns", "last mean", "why")
    all_rows: list[Row] = []
    left_out: list[Row] = []
    for condition in conditions:
        for row in condition.runs:
            failed = last = None
            if row.report is not None:
                failed = sum(count for played in row.report.rows for count in played.failed.values())
                last = row.report.rows[-1].mean if row.report.rows else None
            named = (condition.letter, condition.name, str(row.run.replicate), row.run.run, str(row.run.seed))
            told: Row = (*named, row.state, failed, last, row.problem or "–")
            all_rows.append(told)
            if not row.counts:
                left_out.append(told)
    tables = [make_table("Runs that are in no mean", columns, left_out, texts=6, remarks=1)] if left_out else []
    tables.append(make_table("Every run of the sweep", columns, all_rows, texts=6, remarks=1, is_folded=True))
    texts = ["Each run has a directory of its name in that of the sweep; `ecumene report` makes a page of it, too."]
    return PageSection("Runs", texts, tables=tables)


def _tell(conditions: Sequence[Condition]) -> str:
    told = []
    for condition in conditions[:CONDITIONS_SHOWN_MAX]:
        last = max(condition.means)
        told.append(
            f"{condition.letter}, {condition.name}: {show(estimate_mean(condition.means[last]).mean)} in round {last}"
        )
    return "Means of runs by round and condition: " + "; ".join(told)

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
from ecumene.sim.reporting.sweep_plot import CONDITIONS_SHOWN_MAX, EffectLine, draw_conditions, draw_effects
from ecumene.sim.reporting.sweep_reading import MEAN, WINNING_NUMBER, Condition, read_conditions, shorten_fields

OBSERVATION = (
    "One observation is one run: {of_run}. Agents of one run hear of each other and are "
    "not independent, so n is the number of runs, never of agents."
)
FIGURES_SHOWN_MAX = 6
"""Of an experiment of one's own; all are in what `ecumene export` and rounds.jsonl tell."""
Row = tuple[object, ...]


def write_sweep_page(directory: Path, path: Path) -> None:
    """Write the page of a sweep that is done, or goes on. Raises RecordingError, OSError."""
    sweep = read_sweep(directory)
    conditions = read_conditions(sweep)
    found = list(dict.fromkeys(name for condition in conditions for name in condition.figures))
    names = [name for name in found if name != WINNING_NUMBER][:FIGURES_SHOWN_MAX] or [MEAN]
    shown = [
        section for name in names for section in (_show_means(sweep, conditions, name), _show_effects(conditions, name))
    ]
    sections = [*shown, _list_runs(conditions, names[0]), _describe_sweep(sweep, conditions)]
    subtitle = f"sweep of {len(sweep.runs):,} runs in {len(conditions):,} conditions  ·  {sweep.state}"
    notes, figures = _write_notes(sweep, conditions), _list_figures(sweep, conditions)
    write_page(path, Page(sweep.name, subtitle, directory, notes, sections, figures))


def _write_notes(sweep: Sweep, conditions: Sequence[Condition]) -> list[PageNote]:
    told = {row.found.note for condition in conditions for row in condition.runs if row.found and row.found.note}
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
    counted = [row.found for condition in conditions for row in condition.runs if row.counts and row.found]
    figures = [
        PageFigure("Runs that count", f"{len(counted):,} of {len(sweep.runs):,}"),
        PageFigure("Conditions", f"{len(conditions):,}", ", ".join(shorten_fields(sweep.varied).values())),
    ]
    sizes = sorted({one.agents for one in counted})
    if sizes:
        most = f" – {sizes[-1]:,}" if len(sizes) > 1 else ""
        figures.append(PageFigure("Agents a run", f"{sizes[0]:,}{most}"))
        turns, failed = sum(one.turns for one in counted), sum(one.failed for one in counted)
        figures.append(PageFigure("Turns that failed", f"{failed:,} of {turns:,}"))
        if tokens := sum(one.tokens for one in counted):
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


def _show_means(sweep: Sweep, conditions: Sequence[Condition], name: str) -> PageSection:
    """A figure by condition: the first and the last round at once, all rounds folded."""
    of_run = "the mean of the numbers of a round" if name == MEAN else f"its {name} in a round"
    texts = [OBSERVATION.format(of_run=of_run), f"Intervals: {INTERVAL_METHOD}."]
    title = "Means by condition" if name == MEAN else f"{name} by condition"
    tables = [_tabulate_conditions(sweep, conditions, name), _tabulate_rounds(conditions, name)]
    drawn = [condition for condition in conditions if condition.select(name)]
    if not drawn:
        return PageSection(title, texts, tables=tables)
    caption = "Mean of runs by round, with 95 % intervals over runs where there are two or more."
    if len(drawn) > CONDITIONS_SHOWN_MAX:
        caption += f" The first {CONDITIONS_SHOWN_MAX} of {len(drawn)} conditions; the tables have all."
    image = make_image(
        lambda target, theme: draw_conditions(target, drawn, name, theme),
        alt=_tell(drawn, name),
        caption=caption,
        legend=[(condition.letter, condition.name) for condition in drawn[:CONDITIONS_SHOWN_MAX]],
    )
    return PageSection(title, texts, [image], tables)


def _tabulate_conditions(sweep: Sweep, conditions: Sequence[Condition], name: str) -> PageTable:
    """A line a condition: its values, its runs, first and last round."""
    short = shorten_fields(sweep.varied)
    ends = _find_ends(conditions, name)
    rows: list[Row] = []
    for condition in conditions:
        cells: list[object] = [condition.letter, *(condition.values.get(field, "–") for field in short)]
        values = condition.select(name)
        estimates = [estimate_mean(values.get(number, [])) for number in ends]
        cells += [cell for one in estimates for cell in (one.mean, _show_interval(one))]
        if name == MEAN:
            cells.append(estimate_mean(condition.select(WINNING_NUMBER).get(ends[-1], []) if ends else []).mean)
        notes = dict.fromkeys(one.note for one in estimates if one.note and one.count)
        for number, one in zip(ends, estimates, strict=True):
            if 0 < one.count < condition.counted:
                notes[f"{one.count:,} of {condition.counted:,} runs have round {number}"] = None
        remark = ", ".join(notes) or ("–" if values else "no run is done")
        rows.append((*cells, f"{condition.counted:,} of {len(condition.runs):,}", remark))
    named = [column for number in ends for column in (f"{name}, round {number}", "95 % interval")]
    winning = ["winning number, last round"] if name == MEAN else []
    columns = ("", *short.values(), *named, *winning, "runs", "remark")
    return make_table("Conditions", columns, rows, texts=1 + len(short), remarks=1)


def _find_ends(conditions: Sequence[Condition], name: str) -> list[int]:
    """The first and the last round that all conditions with any have; runs may end at different ones."""
    had = [set(condition.select(name)) for condition in conditions if condition.select(name)]
    rounds = sorted(set.intersection(*had) or set.union(*had)) if had else []
    return list(dict.fromkeys((*rounds[:1], *rounds[-1:])))


def _tabulate_rounds(conditions: Sequence[Condition], name: str) -> PageTable:
    rows: list[Row] = []
    for condition in conditions:
        for number, values in sorted(condition.select(name).items()):
            mean = estimate_mean(values)
            told = (condition.letter, condition.name, str(number), f"{mean.count:,} of {len(condition.runs):,}")
            rows.append((*told, mean.mean, mean.std, mean.low, mean.high, mean.note or "–"))
    columns = ("", "condition", "round", "runs", name, "std of runs", "95 % from", "95 % to", "remark")
    return make_table("Every round", columns, rows, texts=3, remarks=1, is_folded=True)


def _show_interval(estimate: Estimate) -> str:
    return "–" if estimate.low is None else f"{show(estimate.low)} to {show(estimate.high)}"


def _show_effects(conditions: Sequence[Condition], name: str) -> PageSection:
    """Each condition beside the first, in the first and the last round that both have."""
    title = "Effect sizes" if name == MEAN else f"Effect sizes of {name}"
    if len(conditions) < 2:
        return PageSection(title, ["There is one condition: nothing to compare."])
    first, *others = conditions
    rows: list[Row] = []
    lines: list[EffectLine] = []
    for place, condition in enumerate(others, start=1):
        shared = sorted(set(first.select(name)) & set(condition.select(name)))
        if not shared:
            rows.append((condition.letter, condition.name, "–", *[None] * 4, "no round that both conditions have"))
        for number in dict.fromkeys((*shared[:1], *shared[-1:])):
            effect = compare_means(condition.select(name)[number], first.select(name)[number])
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
    return PageSection(title, texts, images, [table])


def _list_runs(conditions: Sequence[Condition], name: str) -> PageSection:
    """Those that are in no mean at once, all of them folded."""
    columns = ("", "condition", "replicate", "run", "seed", "state", "failed turns", f"last {name}", "why")
    all_rows: list[Row] = []
    left_out: list[Row] = []
    for condition in conditions:
        for row in condition.runs:
            failed = last = None
            if row.found is not None:
                failed = row.found.failed
                last = next(iter([*row.found.figures.get(name, {}).values()][-1:]), None)
            named = (condition.letter, condition.name, str(row.run.replicate), row.run.run, str(row.run.seed))
            told: Row = (*named, row.state, failed, last, row.problem or "–")
            all_rows.append(told)
            if not row.counts:
                left_out.append(told)
    tables = [make_table("Runs that are in no mean", columns, left_out, texts=6, remarks=1)] if left_out else []
    tables.append(make_table("Every run of the sweep", columns, all_rows, texts=6, remarks=1, is_folded=True))
    texts = ["Each run has a directory of its name in that of the sweep; `ecumene report` makes a page of it, too."]
    return PageSection("Runs", texts, tables=tables)


def _tell(conditions: Sequence[Condition], name: str) -> str:
    told = []
    for condition in conditions[:CONDITIONS_SHOWN_MAX]:
        last = max(condition.select(name))
        mean = estimate_mean(condition.select(name)[last]).mean
        told.append(f"{condition.letter}, {condition.name}: {show(mean)} in round {last}")
    return f"{name}, mean of runs, by round and condition: " + "; ".join(told)

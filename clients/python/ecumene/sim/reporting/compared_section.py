"""What a page tells of a guess game beside theory, people, models of a published study, and figures of one's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ecumene.sim.reporting import paper
from ecumene.sim.reporting.page import PageSection, PageTable, make_table, show
from ecumene.sim.reporting.reasoning import CLASSES, count_steps
from ecumene.sim.reporting.report import GuessReading, GuessReport

ROUNDS_SHOWN_MAX = 10
Row = tuple[object, ...]


def make_compared_section(reading: GuessReading) -> PageSection:
    """The section, for the rounds that were played by the rules that the others knew."""
    report = reading.report
    is_classic = paper.is_classic(report.spec)
    prompts = paper.find_prompts(report.spec)
    known = sorted(set(prompts.values()) & set(paper.PROMPTS))
    shown = known or list(paper.PROMPTS)
    published = f"Models: {paper.SOURCE}; about 1,000 agents each, temperature 1."
    sources = [f"{line.name}: {line.source}." for line in report.references]
    texts = ["Figures to look at beside this run's; none is a claim that the run reproduces them."]
    if is_classic:
        told = ", ".join(f"{name} ({paper.PROMPTS[name]})" for name in shown)
        texts.append(
            f"{published} Prompts: {told}. Its own tables differ by up to {paper.TOLERANCE:g} for one condition, so "
            "nearer than that tells nothing: look at shape and order, not at decimals."
        )
        sources.append(published)
    if report.note:
        texts.append("Here stand-ins played: how near they come tells of their rules, and nothing of models or people.")
    tables = [
        _tabulate_first_round(reading, prompts, known if is_classic else []),
        *([_tabulate_models(report)] if is_classic and not known else []),
        _tabulate_rounds(report, shown if is_classic else []),
        *_tabulate_mixed(reading),
        *_tabulate_facts(reading),
        *_tabulate_steps(reading),
    ]
    return PageSection("Compared with", texts, tables=tables, folded=("Sources", "\n".join(sources)))


def _tabulate_first_round(reading: GuessReading, prompts: Mapping[str, str], shown: Sequence[str]) -> PageTable:
    """This run beside others in round 1: who, mean, standard deviation, median, n, how far this run's mean is from it.

    Where stand-ins played, nearness is not told. Models have a line each if the run's prompts are known.
    """
    report = reading.report
    own = _split_by_prompt(reading, prompts)
    rows: list[Row] = [
        (f"this run{f', {name}' if name else ''}", *_describe(numbers), None, "–") for name, numbers in own.items()
    ]
    marked = range(len(rows))
    for line in report.references:
        if 1 in line.means:
            difference = _subtract(_mean(own[""]), line.means[1])
            rows.append((f"{line.kind}: {line.name}", line.means[1], None, line.median, line.players, difference, "–"))
    for model, of_model in paper.FIRST_ROUNDS.items():
        asked = any(paper.is_same_model(model, name) for name in report.models)
        for prompt in shown:
            mean, std, median = of_model[prompt]
            difference = _subtract(_mean(own.get(prompt, own[""])), mean)
            label = f"model: {model}, {prompt}" + (" (asked here)" if asked else "")
            rows.append((label, mean, std, float(median), None, difference, _tell_near(difference)))
    columns = ["round 1", "mean", "std", "median", "n", "this run less that", f"within ± {paper.TOLERANCE:g}"]
    if report.note:
        return make_table("Round 1", columns[:-1], [row[:-1] for row in rows], marked=marked)
    return make_table("Round 1", columns, rows, remarks=1, marked=marked)


def _tabulate_models(report: GuessReport) -> PageTable:
    """All models and prompts in round 1, where the run's own prompt is none of them."""
    rows = [
        (model, *(f"{mean:.2f} / {std:.2f} / {median:g}" for mean, std, median in of_model.values()))
        for model, of_model in paper.FIRST_ROUNDS.items()
    ]
    first = next((row for row in report.rows if row.reported), None)
    if first is not None and first.round == 1:
        figures = " / ".join(map(show, (first.mean, first.std, first.median)))
        rows.insert(0, ("this run, no such prompt", figures, *["–"] * 3))
    columns = ("model", *paper.PROMPTS)
    return make_table("Models in round 1, mean / std / median", columns, rows, texts=5, marked=[0] if first else [])


def _tabulate_rounds(report: GuessReport, shown: Sequence[str]) -> PageTable:
    """Means by round of this run and of others, a line each, with the share of the first mean that is left."""
    rounds = [row.round for row in report.rows if row.reported][:ROUNDS_SHOWN_MAX] or [1]
    lines: list[tuple[str, Mapping[int, float]]] = [
        ("this run", {row.round: row.mean for row in report.rows if row.mean is not None})
    ]
    lines += [(f"{line.kind}: {line.name}", line.means) for line in report.references]
    for model, of_model in paper.FIVE_ROUNDS.items():
        lines += [(f"model: {model}, {name}", dict(enumerate(of_model[name], start=1))) for name in shown]
    rows = []
    for label, means in lines:
        values = [means.get(number) for number in rounds]
        known = [value for value in values if value is not None]
        if known:
            rows.append((label, *values, _fall(known), _tell_fall(known)))
    columns = ("mean of", *(f"round {number}" for number in rounds), "last / first", "falls each round")
    return make_table("Means by round", columns, rows, remarks=1, marked=[0])


def _tabulate_mixed(reading: GuessReading) -> Iterator[PageTable]:
    """Where three families of models play together."""
    families = {"llama": "Llama", "mistral": "Mistral", "qwen": "Qwen"}
    found = {
        family: [name for name in reading.group_order if family in name.casefold().replace("mixtral", "mistral")]
        for family in families
    }
    if not paper.is_classic(reading.report.spec) or not all(found.values()):
        return
    rows = []
    for row, published in zip(reading.report.rows, paper.MIXED, strict=False):
        own = [_mean(select_numbers(reading, row.round, names)) for names in found.values()]
        rows.append((str(row.round), *own, row.target, *published))
    names = list(families.values())
    if reading.report.game.players == "groups":
        columns = ("round", *(f"{name}, here" for name in names), "winning, here", *names, "winning number")
        rows = [(*row[:5], *paper.GROUPS) for row in rows[:1]]
        yield make_table("Three models as groups, here and as published (500 each, P6)", columns, rows)
        return
    columns = ("round", *(f"{name}, here" for name in names), "winning, here", *names, "winning number")
    yield make_table("Three models together, here and as published (500 each, P2)", columns, rows)


def _tabulate_facts(reading: GuessReading) -> Iterator[PageTable]:
    report = reading.report
    facts = paper.list_facts(report.spec)
    if not facts:
        return
    first = next((row for row in report.rows if row.reported), None)
    means = {} if first is None else measure_groups(reading, first.round)
    own = {
        "winning number, round 1": None if first is None else first.target,
        paper.LARGEST_DIFFERENCE: max(means.values()) - min(means.values()) if means else None,
    }
    rows = [(fact.condition, fact.figure, fact.value, show(own.get(fact.figure))) for fact in facts]
    yield make_table("Further published figures", ("condition", "figure", "published", "this run"), rows, texts=4)


def _tabulate_steps(reading: GuessReading) -> Iterator[PageTable]:
    """Steps of reasoning by round, where the game has them."""
    report = reading.report
    known = 50.0
    rows: list[Row] = []
    for row in report.rows:
        ratio, offset = report.changed.get(row.round, (report.game.ratio, report.game.offset))
        if 0 < ratio < 1 and offset == 0 and known > 0 and row.reported:
            steps = count_steps(select_numbers(reading, row.round), known=known, ratio=ratio)
            shares = [f"{count / row.reported:.1%}" for count in steps]
            rows.append((str(row.round), row.reported, known, *shares))
        known = known if row.mean is None else row.mean
    if rows:
        caption = "Steps of reasoning (Nagel 1995): shares of numbers n best responses from r, to a quarter step"
        yield make_table(caption, ("round", "n", "r", *CLASSES), rows[:ROUNDS_SHOWN_MAX])


def measure_groups(reading: GuessReading, round_number: int) -> dict[str, float]:
    """Group -> the mean of its numbers in a round, of those that have any."""
    found = {name: _mean(select_numbers(reading, round_number, [name])) for name in reading.group_order}
    return {name: mean for name, mean in found.items() if mean is not None}


def select_numbers(reading: GuessReading, round_number: int, groups: Sequence[str] | None = None) -> np.ndarray:
    """The numbers of a round, of all or of some groups."""
    guess = reading.recording
    chosen = guess.number_rounds == round_number
    if groups is not None:
        wanted = np.array([reading.groups.get(agent) in groups for agent in guess.agents], dtype=bool)
        chosen = chosen & wanted[guess.number_agents]
    return guess.numbers[chosen]


def _split_by_prompt(reading: GuessReading, prompts: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The numbers of round 1: all of them under "", and those of each prompt where there are several."""
    split = {"": select_numbers(reading, 1)}
    if len(names := sorted(set(prompts.values()))) > 1:
        for name in names:
            split[name] = select_numbers(reading, 1, [group for group, prompt in prompts.items() if prompt == name])
    return split


def _describe(numbers: np.ndarray) -> tuple[float | None, float | None, float | None, int]:
    """Mean, standard deviation with n - 1, median, n."""
    if not len(numbers):
        return None, None, None, 0
    std = float(np.std(np.sort(numbers), ddof=1)) if len(numbers) > 1 else None
    return _mean(numbers), std, float(np.median(numbers)), len(numbers)


def _mean(numbers: np.ndarray) -> float | None:
    return float(np.sort(numbers).mean()) if len(numbers) else None


def _subtract(own: float | None, other: float) -> float | None:
    return None if own is None else own - other


def _tell_near(difference: float | None) -> str:
    if difference is None:
        return "–"
    return "yes" if abs(difference) <= paper.TOLERANCE else "no"


def _fall(means: Sequence[float]) -> float | None:
    return means[-1] / means[0] if len(means) > 1 and means[0] else None


def _tell_fall(means: Sequence[float]) -> str:
    if len(means) < 2:
        return "–"
    return "yes" if all(later < earlier for earlier, later in itertools.pairwise(means)) else "no"

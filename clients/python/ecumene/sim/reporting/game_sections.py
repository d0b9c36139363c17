"""What a page tells of the guess game: its results, rounds and groups."""

from __future__ import annotations

import numpy as np

from ecumene.sim.reporting.compared_section import ROUNDS_SHOWN_MAX, make_compared_section, measure_groups
from ecumene.sim.reporting.page import PageFigure, PageSection, PageTable, make_image, make_table, show
from ecumene.sim.reporting.report import GuessReading, GuessReport, describe_target, describe_winning
from ecumene.sim.reporting.rounds import RoundRow
from ecumene.sim.reporting.terminal import describe_statuses, describe_winners

GROUP_ROWS_MAX = 400


def make_game_sections(reading: GuessReading) -> list[PageSection]:
    """Rounds, groups, references."""
    report = reading.report
    target = describe_target(report.game)
    image = make_image(
        reading.draw,
        alt="Histograms of the numbers named in each round, and their mean by round: " + _tell_rounds(report),
        caption="Left: which numbers were named, by round; solid line: mean, broken line: winning number. "
        "Right: the mean by round beside the winning number and the references.",
    )
    rounds = PageSection(
        "Rounds",
        [
            f"Every agent names a number; nearest to {target} wins. Figures are of the numbers that took effect: "
            "n of them, of all who should have named one."
            + (f" From round {min(report.changed)} on an intervention has changed that." if report.changed else ""),
            *([] if _is_flawless(report) else ["Who is not in n stands below."]),
        ],
        [image],
        [_tabulate_rounds(report, describe_winning(report)), *_tabulate_failures(report)],
    )
    told = "Groups play: the number of a group is the mean of its members' numbers, and the nearest group wins."
    texts = [*([told] if report.game.players == "groups" else []), _tell_difference(reading)]
    groups = PageSection("Groups", texts, tables=[_tabulate_means(reading), _tabulate_groups(reading)])
    return [rounds, *([groups] if len(reading.group_order) > 1 else []), make_compared_section(reading)]


def list_game_figures(report: GuessReport) -> list[PageFigure]:
    """The results of a game in a few figures."""
    played = [row for row in report.rows if row.reported]
    if not played:
        return []
    figures = []
    for row in dict.fromkeys((played[0].round, played[-1].round)):
        shown = next(one for one in played if one.round == row)
        spread = "" if shown.std is None else f"std {show(shown.std)}, "
        detail = f"{spread}n {shown.reported:,} of {report.count_players(row):,}"
        figures.append(PageFigure(f"Mean, round {row}", show(shown.mean), detail))
    last = played[-1]
    detail = f"{describe_winners(last)}{_tell_distance(last)}"
    return [*figures, PageFigure(f"Winning number, round {last.round}", show(last.target), detail)]


def _tabulate_rounds(report: GuessReport, target: str) -> PageTable:
    rows = [
        (
            str(row.round),
            f"{row.reported:,} of {report.count_players(row.round):,}",
            row.mean,
            row.std,
            row.median,
            row.target,
            row.told,
            f"{describe_winners(row)}{_tell_distance(row)}",
        )
        for row in report.rows
    ]
    columns = ("round", "n", "mean", "std", "median", target, "told by the world", "winner")
    return make_table("Numbers by round", columns, rows, remarks=1)


def _is_flawless(report: GuessReport) -> bool:
    """Whether all who should have named a number did, and nothing was noticed in any answer."""
    return not any(row.failed or row.flags or report.count_players(row.round) > row.turns for row in report.rows)


def _tabulate_failures(report: GuessReport) -> list[PageTable]:
    """Who is not in n, and why; nothing where nobody is missing."""
    if _is_flawless(report):
        return []
    rows = [
        (
            str(row.round),
            sum(row.failed.values()),
            max(0, report.count_players(row.round) - row.turns),
            describe_statuses(row.failed) or "–",
            describe_statuses(row.flags) or "–",
        )
        for row in report.rows
    ]
    columns = ("round", "failed", "without a turn", "why failed", "flags")
    return [make_table("Who is not in n, and what was noticed in answers", columns, rows, remarks=2)]


def _tell_distance(row: RoundRow) -> str:
    if row.target is None or row.winner_number is None:
        return ""
    return f" ({abs(row.winner_number - row.target):.3g} away)"


def _tabulate_groups(reading: GuessReading) -> PageTable:
    """By round and group, with those who failed."""
    guess = reading.recording
    names = [*reading.group_order, "other"]
    places = {name: place for place, name in enumerate(names)}
    by_agent = np.array([places.get(reading.groups.get(agent, ""), len(names) - 1) for agent in guess.agents])
    codes, turn_codes = by_agent[guess.number_agents], by_agent[guess.turn_agents]
    rows = []
    for row in reading.report.rows:
        for place, name in enumerate(names):
            numbers = guess.numbers[(guess.number_rounds == row.round) & (codes == place)]
            turns = int(((guess.turn_rounds == row.round) & (turn_codes == place)).sum())
            expected = reading.report.groups.get(name, turns)
            if not expected and not len(numbers):
                continue
            rows.append((str(row.round), name, f"{len(numbers):,} of {expected:,}", *_describe_numbers(numbers)))
    caption = "Numbers by round and group"
    if len(rows) > GROUP_ROWS_MAX:
        caption += f" (the first {GROUP_ROWS_MAX} of {len(rows):,} lines; all: ecumene export)"
    columns = ("round", "group", "n", "mean", "std", "median")
    return make_table(caption, columns, rows[:GROUP_ROWS_MAX], texts=2, is_folded=True)


def _tabulate_means(reading: GuessReading) -> PageTable:
    """A line a group: its agents, and the means of the first rounds."""
    rounds = [row.round for row in reading.report.rows if row.reported][:ROUNDS_SHOWN_MAX]
    means = {number: measure_groups(reading, number) for number in rounds}
    rows = [
        (name, reading.report.groups.get(name), *(means[number].get(name) for number in rounds))
        for name in reading.group_order[:GROUP_ROWS_MAX]
    ]
    columns = ("group", "agents", *(f"mean, round {number}" for number in rounds))
    return make_table("Means by group", columns, rows)


def _tell_difference(reading: GuessReading) -> str:
    """How far the means of groups lie apart in the first round."""
    first = next((row.round for row in reading.report.rows if row.reported), 1)
    means = measure_groups(reading, first)
    if len(means) < 2:
        return "Fewer than two groups have numbers."
    lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        f"In round {first} the means of groups differ by up to {means[highest] - means[lowest]:.2f}: "
        f"{lowest} names {means[lowest]:.2f}, {highest} {means[highest]:.2f} on the average."
    )


def _describe_numbers(numbers: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """Mean, standard deviation with n - 1, median; None where there are too few."""
    if not len(numbers):
        return None, None, None
    std = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    return float(numbers.mean()), std, float(np.median(numbers))


def _tell_rounds(report: GuessReport) -> str:
    return "; ".join(f"round {row.round} mean {show(row.mean)}" for row in report.rows[:10])

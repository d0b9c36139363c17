"""A report for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ecumene.sim.reporting.experiment import ExperimentReport
from ecumene.sim.reporting.experiment_terminal import render_experiment
from ecumene.sim.reporting.references import Reference
from ecumene.sim.reporting.report import GuessReport, describe_winning
from ecumene.sim.reporting.rounds import RoundRow

COMPARED_ROUNDS_MAX = 5
REASON_CHARS_MAX = 150


def render_report(report: GuessReport | ExperimentReport) -> RenderableType:
    """The table of rounds, the comparison below it, and where the plot is; print it with a rich console."""
    if isinstance(report, ExperimentReport):
        return render_experiment(report)
    lines = [f"turns: {describe_statuses(report.statuses) or 'none'}"]
    lines += [describe_reason(status, *told) for status, told in report.reasons.items()]
    compared = [compare(reference, report.rows) for reference in report.references]
    lines += [line for line in compared if line] or ["nothing is known to compare these rounds with"]
    lines += [report.note] if report.note else []
    lines += [f"plot: {report.plot}"]
    return Group(build_round_table(report), *(Text(line) for line in lines))


def build_round_table(report: GuessReport) -> Table:
    """One line a round."""
    players = "1 agent" if report.agents == 1 else f"{report.agents:,} agents"
    if most := max(report.guests.values(), default=0):
        players += " and 1 guest" if most == 1 else f" and {most:,} guests"
    title = f"Guess the average · {players} · seed {report.manifest.seed}"
    table = Table(title=title, title_justify="left")
    table.add_column("round", justify="right")
    table.add_column("reported", justify="right")
    table.add_column("failed", overflow="fold")
    for name in ("mean", "std", "median", describe_winning(report)):
        table.add_column(name, justify="right")
    table.add_column("winner", overflow="fold")
    for row in report.rows:
        table.add_row(
            str(row.round),
            f"{row.reported:,} of {report.count_players(row.round):,}",
            describe_statuses(row.failed) if row.failed else "none",
            *(format_figure(figure) for figure in (row.mean, row.std, row.median, row.target)),
            describe_winners(row),
        )
    return table


def describe_reason(status: str, reason: str, count: int) -> str:
    """Why most of the turns with a status ended so."""
    text = " ".join(reason.split())
    shown = text if len(text) <= REASON_CHARS_MAX else text[:REASON_CHARS_MAX] + "…"
    return f"{status}: {shown} ({'1 turn' if count == 1 else f'{count:,} turns'})"


def describe_statuses(statuses: Mapping[str, int]) -> str:
    """Turns by status, in words."""
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())


def describe_winners(row: RoundRow) -> str:
    """Who won, with which number."""
    if not row.winners:
        return "nobody"
    others = f" and {row.winner_count - 1:,} more" if row.winner_count > 1 else ""
    return f"{row.winners[0]}{others} with {format_figure(row.winner_number)}"


def compare(reference: Reference, rows: list[RoundRow]) -> str:
    """A reference beside the means of a run, for the first rounds that both have; "" if there are none."""
    means = {row.round: row.mean for row in rows if row.mean is not None}
    pairs = [f"{value:.1f} ({means[number]:.1f})" for number, value in reference.means.items() if number in means]
    if not pairs:
        return ""
    left_out = ", …" if len(pairs) > COMPARED_ROUNDS_MAX else ""
    figures = ", ".join(pairs[:COMPARED_ROUNDS_MAX]) + left_out
    return f"{reference.kind}: {reference.name} (this run): {figures}; {reference.source}"


def format_figure(figure: float | None) -> str:
    """A figure with as many digits as tell something."""
    if figure is None:
        return "–"
    return f"{figure:.3f}" if abs(figure) < 10 else f"{figure:.2f}"

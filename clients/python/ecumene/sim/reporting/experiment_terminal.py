"""The report of an experiment of one's own for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ecumene.client.records import TurnStatus
from ecumene.sim.reporting.experiment import ExperimentReport

FIGURES_SHOWN_MAX = 8
ROUNDS_SHOWN_MAX = 30
REASON_CHARS_SHOWN_MAX = 250
"""The place in an agent's class comes last, and is shown, too."""


def render_experiment(report: ExperimentReport) -> RenderableType:
    """The table of rounds, how turns ended, and where the plot is; print it with a rich console."""
    statuses = ", ".join(f"{row.turns:,} {row.status}" for row in report.overview.statuses)
    lines = [f"turns: {statuses or 'none'}"]
    lines += [
        f"{row.status}: {' '.join(reason.split())[:REASON_CHARS_SHOWN_MAX]} ({count:,} turn{'' if count == 1 else 's'})"
        for row in report.overview.statuses
        if not row.acted or row.status == TurnStatus.OK
        for reason, count in row.reasons[:1]
    ]
    if left := len(report.names) - FIGURES_SHOWN_MAX:
        lines += [f"{left} more figures are in summary.json"] if left > 0 else []
    lines += [report.note] if report.note else []
    lines += [f"plot: {report.plot}"] if report.plot is not None else ["no figure is a number, so nothing is drawn"]
    return Group(build_figure_table(report), *(Text(line) for line in lines))


def build_figure_table(report: ExperimentReport) -> Table:
    """One line a round; of many rounds the first and the last ones."""
    agents = "1 agent" if report.overview.agents == 1 else f"{report.overview.agents:,} agents"
    title = f"{report.manifest.spec.get('name', report.manifest.run)} · {agents} · seed {report.manifest.seed}"
    table = Table(title=title, title_justify="left")
    names = report.names[:FIGURES_SHOWN_MAX]
    for name in ("round", *(("until",) if report.is_timed else ("reported",)), *names):
        table.add_column(name, justify="right")
    rows = report.rows
    half = ROUNDS_SHOWN_MAX // 2
    shown = rows if len(rows) <= ROUNDS_SHOWN_MAX else [*rows[:half], None, *rows[-half:]]
    for row in shown:
        if row is None:
            table.add_row(*("…" for _ in table.columns))
            continue
        lost = [f"{count:,} {what}" for count, what in ((row.failed, "failed"), (row.missing, "missing")) if count]
        told = row.until or ", ".join([f"{row.reported or 0:,}", *lost])
        table.add_row(str(row.round), told, *(format_value(row.figures.get(name)) for name in names))
    return table


def format_value(value: object) -> str:
    """A figure with as many digits as tell something."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)[:40]

"""What a page tells of any run, whatever was played: turns, models, cost, actions and events."""

from __future__ import annotations

import dataclasses

from ecumene.sim.reporting.overview import Overview
from ecumene.sim.reporting.page import PageSection, make_image, make_table
from ecumene.sim.reporting.timeline_plot import draw_timeline


def make_overview_sections(overview: Overview) -> list[PageSection]:
    """Turns, models, and what happened."""
    turns = PageSection(
        "Turns",
        [
            f"{overview.turns:,} turns of {overview.agents:,} agents; "
            + (
                f"{overview.turns_failed:,} of them failed: they did not do what they were woken for, and are counted "
                "here and in no mean."
                if overview.turns_failed
                else "none of them failed."
            )
            + (f" {overview.paused:,} more were not taken, of paused agents." if overview.paused else "")
        ],
        [
            make_image(
                lambda target, theme: draw_timeline(target, overview, theme),
                alt=_tell_timeline(overview),
                caption="When turns began.",
            )
        ]
        if overview.turns
        else [],
        [
            make_table("How turns ended, and why", ("status", "reason", "turns"), _list_statuses(overview), texts=2),
            make_table(
                "By group of the population",
                ("group", "agents", "turns", "did not act", "tokens", "median latency, ms"),
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
    if sum(overview.asked_tokens):
        sent, received = overview.asked_tokens
        texts.append(f"Surveys and interviews took {sent:,} and {received:,} more; the table below is of turns alone.")
    if not rows:
        texts.append("No call of a model is recorded.")
    columns = ("model", "calls", "failed", "cached", "tokens sent", "received", "dollars", "calls without price")
    table = make_table("Calls of models", (*columns, "p50, ms", "p95, ms", "p99, ms"), rows)
    return PageSection("Models, tokens and cost", texts, tables=[table])


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
        f"Turns begun over {overview.starts_s[-1]:.1f} seconds: {int(overview.acted.sum()):,} that acted "
        f"and {int(overview.failed.sum()):,} that did not."
    )


def _drop_empty(section: PageSection) -> PageSection:
    """Without tables that have no rows."""
    tables = [table for table in section.tables if table.rows]
    return dataclasses.replace(section, tables=tables)

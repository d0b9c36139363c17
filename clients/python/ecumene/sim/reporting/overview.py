"""What any run left, whatever was played: how turns ended, what was noticed, what it cost, what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ecumene.client.records import TURNS, TurnStatus
from ecumene.sim.recordings import Recording
from ecumene.sim.reporting.rounds import is_acting

REASONS_SHOWN_MAX = 5
"""Of each status; the others are counted together."""
NAMES_SHOWN_MAX = 20
PAUSED = "muted"
"""Reason of a turn of an agent that an intervention has paused: it took none, as was wanted."""
BINS = 60
PERCENTILES = (0.5, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class StatusRow:
    """How turns ended: a status, how many, and the commonest reasons with their turns."""

    status: str
    acted: bool
    turns: int
    reasons: tuple[tuple[str, int], ...]
    other_reasons: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of agents; the group "" is none."""

    group: str
    agents: int
    turns: int
    acted: int
    tokens: int
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What was asked of a model. `microdollars` is None if no call has a cost; `unpriced` calls have none."""

    model: str
    calls: int
    failed: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    microdollars: int | None
    unpriced: int
    latency_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NameRow:
    """An action, an event or a flag, by name: how often, and how many of them took effect."""

    name: str
    count: int
    effective: int


@dataclass(frozen=True)
class Overview:
    """All of a run that needs no knowledge of what was played.

    Attributes:
        agents, turns, turns_in_rounds: counted once each.
        prompt_tokens, completion_tokens: of all turns.
        models: empty if no call is recorded.
        paused: turns that paused agents did not take.
        asked_tokens: sent and received by surveys and interviews, which are in no turn.
        latency_ms: percentile -> ms, of turns that acted; empty if there are none.
        starts_s, acted, failed: turns begun in each stretch of the run; `starts_s` has its edges, in seconds since the
            first turn.
    """

    agents: int
    turns: int
    turns_in_rounds: int
    prompt_tokens: int
    completion_tokens: int
    statuses: list[StatusRow]
    groups: list[GroupRow]
    models: list[ModelRow]
    flags: list[NameRow]
    paused: int
    asked_tokens: tuple[int, int]
    actions: list[NameRow]
    events: list[NameRow]
    latency_ms: Mapping[str, float]
    starts_s: np.ndarray
    acted: np.ndarray
    failed: np.ndarray

    @property
    def turns_failed(self) -> int:
        """Turns that did not do what they were woken for, but for those of paused agents."""
        return sum(row.turns for row in self.statuses if not row.acted) - self.paused


def read_overview(recording: Recording) -> Overview:
    """Count what is recorded. Raises RecordingError."""
    ((agents, turns, in_rounds, sent, received),) = recording.ask(
        "SELECT count(DISTINCT agent), count(*), count(round), coalesce(sum(prompt_tokens), 0), "
        "coalesce(sum(completion_tokens), 0) FROM turns"
    )
    statuses = _read_statuses(recording)
    acting = [row.status for row in statuses if row.acted]
    starts_s, acted, failed = _read_timeline(recording, acting)
    ((paused,),) = recording.ask(
        "SELECT count(*) FROM turns WHERE status = $cancelled AND reason = $paused",
        cancelled=TurnStatus.CANCELLED.value,
        paused=PAUSED,
    )
    ((asked, answered),) = recording.ask(
        "SELECT coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0) FROM surveys"
    )
    return Overview(
        agents=agents,
        turns=turns,
        turns_in_rounds=in_rounds,
        prompt_tokens=int(sent),
        completion_tokens=int(received),
        statuses=statuses,
        groups=_read_groups(recording, acting),
        models=_read_models(recording),
        flags=_read_flags(recording),
        paused=paused,
        asked_tokens=(int(asked), int(answered)),
        actions=_read_names(recording, "action", "count(commit_revision)", "actions"),
        events=_read_names(recording, "type", "count(*)", "events"),
        latency_ms=_read_percentiles(recording, TURNS.name, "list_contains($acting, status)", acting=acting),
        starts_s=starts_s,
        acted=acted,
        failed=failed,
    )


def _read_statuses(recording: Recording) -> list[StatusRow]:
    reasons: dict[str, list[tuple[str | None, int]]] = {}
    for status, reason, count in recording.ask(
        "SELECT status, reason, count(*) AS n FROM turns GROUP BY ALL ORDER BY n DESC, status, reason"
    ):
        reasons.setdefault(status, []).append((reason, count))
    rows = []
    for status, told in reasons.items():
        given = [(reason, count) for reason, count in told if reason is not None]
        others = sum(count for _, count in given[REASONS_SHOWN_MAX:])
        turns = sum(count for _, count in told)
        rows.append(StatusRow(status, is_acting(status), turns, tuple(given[:REASONS_SHOWN_MAX]), others))
    return sorted(rows, key=lambda row: (-row.turns, row.status))


def _read_groups(recording: Recording, acting: list[str]) -> list[GroupRow]:
    rows = recording.ask(
        "SELECT coalesce(\"group\", '') AS name, count(DISTINCT agent), count(*), "
        "count(*) FILTER (list_contains($acting, status)), sum(prompt_tokens + completion_tokens), "
        "median(latency_ms) FILTER (list_contains($acting, status)) FROM turns GROUP BY name ORDER BY name",
        acting=acting,
    )
    return [
        GroupRow(name, agents, turns, acted, int(tokens), late) for name, agents, turns, acted, tokens, late in rows
    ]


def _read_models(recording: Recording) -> list[ModelRow]:
    rows = recording.ask(
        "SELECT model, count(*), count(*) FILTER (status <> 'ok'), count(*) FILTER (cached = 1), sum(prompt_tokens), "
        "sum(completion_tokens), sum(microdollars), count(*) - count(microdollars), "
        f"quantile_cont(latency_ms, {list(PERCENTILES)}) FROM calls GROUP BY model ORDER BY model"
    )
    return [
        ModelRow(
            model, calls, failed, cached, int(sent), int(got), None if cost is None else int(cost), free, _name(late)
        )
        for model, calls, failed, cached, sent, got, cost, free, late in rows
    ]


def _read_flags(recording: Recording) -> list[NameRow]:
    rows = recording.ask(
        "SELECT flag, count(*) AS n FROM (SELECT unnest(string_split(flags, ',')) AS flag FROM turns "
        f"WHERE flags IS NOT NULL) WHERE flag <> '' GROUP BY flag ORDER BY n DESC, flag LIMIT {NAMES_SHOWN_MAX}"
    )
    return [NameRow(name, count, count) for name, count in rows]


def _read_names(recording: Recording, column: str, effective: str, table: str) -> list[NameRow]:
    rows = recording.ask(
        f"SELECT {column}, count(*) AS n, {effective} FROM {table} GROUP BY {column} ORDER BY n DESC, {column} "
        f"LIMIT {NAMES_SHOWN_MAX}"
    )
    return [NameRow(*row) for row in rows]


def _read_percentiles(recording: Recording, table: str, condition: str, **values: object) -> dict[str, float]:
    ((found,),) = recording.ask(
        f"SELECT quantile_cont(latency_ms, {list(PERCENTILES)}) FROM {table} WHERE {condition}", **values
    )
    return _name(found)


def _name(percentiles: list[float] | None) -> dict[str, float]:
    names = ["max" if share == 1.0 else f"p{share * 100:g}" for share in PERCENTILES]
    return dict(zip(names, percentiles, strict=True)) if percentiles else {}


def _read_timeline(recording: Recording, acting: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ((first, last),) = recording.ask("SELECT min(wall_time_ns), max(wall_time_ns) FROM turns")
    acted, failed = np.zeros(BINS), np.zeros(BINS)
    if first is None:
        return np.zeros(BINS + 1), acted, failed
    width = max((last - first) // BINS + 1, 1)
    for place, did, count in recording.ask(
        "SELECT (wall_time_ns - $first) // $width, list_contains($acting, status), count(*) FROM turns GROUP BY ALL",
        first=first,
        width=width,
        acting=acting,
    ):
        (acted if did else failed)[place] = count
    return np.arange(BINS + 1) * (width / 1e9), acted, failed

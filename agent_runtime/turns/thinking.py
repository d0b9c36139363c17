"""Simulated thinking time of many rows: no timer, task or future an agent, only sorted deadlines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.cohort import Rows
from agent_runtime.llm.latency import LATENCY_STREAM, LatencyDistribution
from agent_runtime.model.draws import Draw
from agent_runtime.model.notices import Notice
from agent_runtime.turns.mailboxes import Numbers

NEVER_S = float("inf")

Seconds = npt.NDArray[np.float64]
"""Instants of the worker's clock, one a row."""


@dataclass(slots=True)
class Thinkers:
    """Turns about one notice: their rows, their numbers, when each began and when it is done."""

    notice: Notice
    rows: Rows
    turns: Numbers
    started_s: Seconds
    due_s: Seconds

    @classmethod
    def begun(cls, notice: Notice, now_s: float, rows: Rows, turns: Numbers) -> Thinkers:
        """Turns that begin and are done now."""
        now = np.full(len(rows), now_s)
        return cls(notice, rows, turns, now, now)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, places: slice | list[int]) -> Thinkers:
        """Some of them."""
        started_s, due_s = self.started_s[places], self.due_s[places]
        return Thinkers(self.notice, self.rows[places], self.turns[places], started_s, due_s)


def join_alike(some: Sequence[Thinkers]) -> list[Thinkers]:
    """Those about one notice together: they fill frames, whenever they began."""
    # By the notice itself: of one revision there may be several, for those who are woken at different times.
    by_notice: dict[int, list[Thinkers]] = {}
    for thinkers in some:
        by_notice.setdefault(id(thinkers.notice), []).append(thinkers)
    return [_join(alike) for alike in by_notice.values()]


def _join(alike: list[Thinkers]) -> Thinkers:
    if len(alike) == 1:
        return alike[0]
    columns: Any = ([one.rows, one.turns, one.started_s, one.due_s] for one in alike)
    return Thinkers(alike[0].notice, *map(np.concatenate, zip(*columns, strict=True)))


class ThinkingRows:
    """All rows of a group that think, by deadline. Nobody is done early."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Thinkers]] = []
        self._numbers = itertools.count()

    @property
    def next_due_s(self) -> float:
        """When the next row is done; NEVER_S if none thinks."""
        return self._heap[0][0] if self._heap else NEVER_S

    def add(
        self,
        notice: Notice,
        started_s: float,
        rows: Rows,
        turns: Numbers,
        delays_ms: float | Seconds,
    ) -> None:
        """Let rows think, all equally long or each its own time."""
        if isinstance(delays_ms, float):
            due_s = np.full(len(rows), started_s + delays_ms / 1000)
        else:
            order: Any = np.argsort(delays_ms, kind="stable")
            rows, turns, due_s = rows[order], turns[order], started_s + delays_ms[order] / 1000
        self._push(Thinkers(notice, rows, turns, np.full(len(rows), started_s), due_s))

    def take_due(self, now_s: float) -> list[Thinkers]:
        """Whoever is done by now, and no longer thinks."""
        taken = []
        while self.next_due_s <= now_s:
            thinkers = heapq.heappop(self._heap)[2]
            count = int(np.searchsorted(thinkers.due_s, now_s, side="right"))
            taken.append(thinkers.select(slice(0, count)))
            self._push(thinkers.select(slice(count, None)))
        return taken

    def take_all(self) -> list[Thinkers]:
        """Everyone, done or not."""
        taken = [thinkers for _, _, thinkers in self._heap]
        self._heap.clear()
        return taken

    def _push(self, thinkers: Thinkers) -> None:
        if len(thinkers):
            heapq.heappush(self._heap, (float(thinkers.due_s[0]), next(self._numbers), thinkers))


def draw_delays_ms(
    distribution: LatencyDistribution, seed: int, agent_ids: Sequence[str], turns: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Thinking times of agents at their turns, equal to those of a scripted model of the same seed."""
    draws = (Draw(seed, agent, turn, 0, LATENCY_STREAM) for agent, turn in zip(agent_ids, turns, strict=True))
    return np.fromiter((distribution.sample_ms(draw) for draw in draws), np.float64, len(agent_ids))

"""What a benchmark gives: results with their samples, limits and goals, and the machine they were measured on."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """What a value should reach. Parts that are None do not count; shares are of the limit."""

    at_least: float | None = None
    at_most: float | None = None
    share_at_least: float | None = None
    share_at_most: float | None = None

    def is_met(self, value: float, limit: float | None) -> bool:
        """Whether a value reaches it; a share of a limit that was not measured is left out."""
        low = [] if self.at_least is None else [self.at_least]
        high = [] if self.at_most is None else [self.at_most]
        if limit is not None:
            low += [] if self.share_at_least is None else [self.share_at_least * limit]
            high += [] if self.share_at_most is None else [self.share_at_most * limit]
        return all(value >= bound for bound in low) and all(value <= bound for bound in high)

    def describe(self) -> str:
        """In a few characters."""
        parts = [] if self.at_least is None else [f"≥ {self.at_least:,.6g}"]
        parts += [] if self.at_most is None else [f"≤ {self.at_most:,.6g}"]
        parts += [] if self.share_at_least is None else [f"≥ {self.share_at_least:.0%} of limit"]
        parts += [] if self.share_at_most is None else [f"≤ {self.share_at_most:g} × limit"]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Result:
    """One figure.

    Attributes:
        name: as in the design's table of targets.
        value: the median of the samples.
        limit: the same of the bare limit, in the same unit, measured in turn with the samples; None = not measured.
        goal: what it should reach.
        peers: other systems, in the same unit.
        samples: one a repeat.
        details: what explains the figure, such as CPU an op; names end with their unit.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    goal: Goal | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    samples: Sequence[float] = ()
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The value as a share of the limit."""
        return None if not self.limit else self.value / self.limit

    @property
    def meets_goal(self) -> bool | None:
        """Whether the goal is met; None = there is none."""
        return None if self.goal is None else self.goal.is_met(self.value, self.limit)

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        goal = (
            None if self.goal is None else {name: part for name, part in asdict(self.goal).items() if part is not None}
        )
        return {
            "name": self.name,
            "value": _round(self.value),
            "unit": self.unit,
            "limit": None if self.limit is None else _round(self.limit),
            "goal": goal,
            "meets_goal": self.meets_goal,
            "peers": dict(self.peers),
            "samples": [_round(sample) for sample in self.samples],
            "details": {name: _round(detail) for name, detail in self.details.items()},
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one benchmark."""

    bench: str
    machine: Mapping[str, Any]
    results: Sequence[Result]
    is_quick: bool = False

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "bench": self.bench,
            "quick": self.is_quick,
            "machine": dict(self.machine),
            "results": [result.to_document() for result in self.results],
        }


def take_median(samples: Sequence[float]) -> float:
    """The median. Raises statistics.StatisticsError for no samples."""
    return statistics.median(samples)


def _round(value: float) -> float:
    """Six significant digits: more would be noise."""
    return float(f"{value:.6g}")

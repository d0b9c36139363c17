"""What a benchmark gives: results with their samples, limits and goals, and the machine they were measured on."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """What a value should reach. Parts that are None do not count; shares are of the limit, `peers_at_least` of peers.

    A part whose limit or peer was not measured is left out. Shares of the limit count until the server uses
    `until_cores`, of the one core that its loop can use: it then has no more to give. None = they always count.
    """

    at_least: float | None = None
    at_most: float | None = None
    share_at_least: float | None = None
    share_at_most: float | None = None
    peers_at_least: Mapping[str, float] = field(default_factory=dict)
    until_cores: float | None = None

    def is_met(
        self, value: float, limit: float | None, peers: Mapping[str, float] | None = None, cores: float = 0.0
    ) -> bool:
        """Whether a value reaches every part that could be measured; `cores` is what the server used meanwhile."""
        return not self.find_missed(value, limit, peers, cores)

    def find_missed(
        self, value: float, limit: float | None, peers: Mapping[str, float] | None = None, cores: float = 0.0
    ) -> list[str]:
        """The parts that a value does not reach, as `describe` has them."""
        is_bound = self.until_cores is not None and cores >= self.until_cores
        known = {"limit": None if is_bound else limit, **(peers or {})}
        missed = []
        for text, share, name, is_floor in self._parts():
            whole = 1.0 if name is None else known.get(name)
            if whole is not None and (value < share * whole if is_floor else value > share * whole):
                missed.append(text)
        return missed

    def describe(self) -> str:
        """In a few characters."""
        until = "" if self.until_cores is None else " until the CPU binds"
        return ", ".join(text for text, *_ in self._parts()) + until

    def _parts(self) -> list[tuple[str, float, str | None, bool]]:
        """Each part: its text, the bound, what that is a share of (None = it is absolute), whether it is a floor."""
        parts: list[tuple[str, float, str | None, bool]] = []
        if self.at_least is not None:
            parts.append((f"≥ {self.at_least:,.6g}", self.at_least, None, True))
        if self.at_most is not None:
            parts.append((f"≤ {self.at_most:,.6g}", self.at_most, None, False))
        if self.share_at_least is not None:
            parts.append((f"≥ {self.share_at_least:.0%} of limit", self.share_at_least, "limit", True))
        if self.share_at_most is not None:
            parts.append((f"≤ {self.share_at_most:g} × limit", self.share_at_most, "limit", False))
        parts += [(f"≥ {times:g} × {peer}", times, peer, True) for peer, times in self.peers_at_least.items()]
        return parts


@dataclass(frozen=True, slots=True)
class Result:
    """One figure.

    Attributes:
        name: as in the design's table of targets.
        value: the median of the samples.
        limit: the same of the bare limit, in the same unit, measured in turn with the samples; None = not measured.
        goal: what it should reach.
        peers: other systems, in the same unit.
        absent_peers: those that could not be measured, each with the reason.
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
    absent_peers: Mapping[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The value as a share of the limit."""
        return None if not self.limit else self.value / self.limit

    @property
    def _cores(self) -> float:
        return self.details.get("server_cores", 0.0)

    @property
    def meets_goal(self) -> bool | None:
        """Whether the goal is met; None = there is none."""
        return None if self.goal is None else self.goal.is_met(self.value, self.limit, self.peers, self._cores)

    @property
    def missed(self) -> list[str]:
        """The parts of the goal that are not met."""
        return [] if self.goal is None else self.goal.find_missed(self.value, self.limit, self.peers, self._cores)

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        goal = (
            None
            if self.goal is None
            else {name: part for name, part in asdict(self.goal).items() if part not in (None, {})}
        )
        return {
            "name": self.name,
            "value": _round(self.value),
            "unit": self.unit,
            "limit": None if self.limit is None else _round(self.limit),
            "goal": goal,
            "meets_goal": self.meets_goal,
            "missed": self.missed,
            "peers": {name: _round(peer) for name, peer in self.peers.items()},
            "absent_peers": dict(self.absent_peers),
            "samples": [_round(sample) for sample in self.samples],
            "details": {name: _round(detail) for name, detail in self.details.items()},
        }


@dataclass(frozen=True, slots=True)
class Reported:
    """A figure that others have published of their system on their machines: it stands beside ours, and in no goal.

    Attributes:
        name: of our result that it stands beside.
        value: as published.
        source: where.
        setting: what was run, and on what.
    """

    name: str
    value: float
    unit: str
    source: str
    setting: str


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one benchmark, and what others reported of theirs."""

    bench: str
    machine: Mapping[str, Any]
    results: Sequence[Result]
    is_quick: bool = False
    reported: Sequence[Reported] = ()

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "bench": self.bench,
            "quick": self.is_quick,
            "machine": dict(self.machine),
            "results": [result.to_document() for result in self.results],
            "reported": [asdict(one) for one in self.reported],
        }


def take_median(samples: Sequence[float]) -> float:
    """The median. Raises statistics.StatisticsError for no samples."""
    return statistics.median(samples)


def _round(value: float) -> float:
    """Six significant digits: more would be noise."""
    return float(f"{value:.6g}")

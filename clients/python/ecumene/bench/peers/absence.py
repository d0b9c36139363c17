"""Peers that cannot be measured, and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ecumene.bench.processes import BenchError
from ecumene.bench.results import take_median

Note = Callable[[str], None]


class PeerAbsentError(BenchError):
    """A peer cannot be measured on this machine; the message is the reason."""


@dataclass(slots=True)
class PeerSamples:
    """What peers have reached, each sample in turn with ours; a peer that failed once is not tried again."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    async def measure(self, name: str, work: Callable[[], Awaitable[float]], note: Note) -> None:
        """Add a sample of a peer, or the reason why there is none."""
        if name in self.absent:
            return
        note(f"peer {name}")
        try:
            self.samples.setdefault(name, []).append(await work())
        except BenchError as error:
            self.samples.pop(name, None)
            self.absent[name] = str(error)
            note(f"peer {name} is absent: {error}")

    def medians(self) -> dict[str, float]:
        """A figure for each peer that was measured."""
        return {name: take_median(samples) for name, samples in self.samples.items()}

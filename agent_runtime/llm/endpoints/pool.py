"""The endpoints of one model."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.llm.endpoints.endpoint import Endpoint


class Pool:
    """Chooses the endpoint with the least load by weight; of equals, the one that has answered least by weight."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        if not endpoints:
            raise ValueError("a model needs an endpoint")
        self.endpoints = tuple(endpoints)

    @property
    def in_flight(self) -> int:
        """Calls that are out."""
        return sum(endpoint.in_flight for endpoint in self.endpoints)

    def choose(self, now_s: float) -> Endpoint | None:
        """An endpoint that takes a call now, None if there is none."""
        if len(self.endpoints) == 1:
            only = self.endpoints[0]
            return only if only.wait_s(now_s) == 0.0 else None
        free = [endpoint for endpoint in self.endpoints if endpoint.wait_s(now_s) == 0.0]
        return min(free, key=_rank, default=None)

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until an endpoint may take a call, None = when a call comes back."""
        waits = [wait_s for endpoint in self.endpoints if (wait_s := endpoint.wait_s(now_s)) is not None]
        return min(waits, default=None)

    def find_dead_s(self, now_s: float) -> float | None:
        """Seconds until the first endpoint takes calls again when every one is paused or broken, else None."""
        waits = []
        for endpoint in self.endpoints:
            if (dead_s := endpoint.find_dead_s(now_s)) is None:
                return None
            waits.append(dead_s)
        return min(waits)


def _rank(endpoint: Endpoint) -> tuple[float, float]:
    return endpoint.load, endpoint.answers / endpoint.weight

"""What the models of a run have cost, as its workers keep it in the world: in `/runtime/runs/<run>/spent`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.world import World

EXHAUSTED = "exhausted"
"""The entry that says which budget did not pay for a question."""
NO_PHASE = "-"


@dataclass(slots=True)
class Cost:
    """What one model cost in one phase."""

    questions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    microdollars: int = 0


@dataclass(frozen=True, slots=True)
class RunSpending:
    """The sums of a run, by (model, phase): names as the launch has them, the phase of a plain question is ""."""

    costs: Mapping[tuple[str, str], Cost] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Sent and received."""
        return sum(cost.prompt_tokens + cost.completion_tokens for cost in self.costs.values())

    @property
    def microdollars(self) -> int:
        """Millionths of a dollar."""
        return sum(cost.microdollars for cost in self.costs.values())


def find_spent_path(run: str) -> str:
    """Where the world keeps the sums of a run."""
    return f"/runtime/runs/{run}/spent"


async def read_spending(world: World, run: str) -> RunSpending:
    """The sums so far; up to a second of workers that live, and of those that were killed, is missing.

    Raises EcumeneError.
    """
    costs: dict[tuple[str, str], Cost] = {}
    try:
        entries = [entry async for entry in world.environment(find_spent_path(run)).entries()]
    except EnvironmentNotFoundError:
        return RunSpending()
    for entry in entries:
        names = entry.key.split(" ")
        if len(names) == 3 and names[2] in Cost.__slots__:
            phase = "" if names[1] == NO_PHASE else unquote(names[1])
            cost = costs.setdefault((unquote(names[0]), phase), Cost())
            setattr(cost, names[2], int(entry.value))  # type: ignore[arg-type]
    return RunSpending(costs)

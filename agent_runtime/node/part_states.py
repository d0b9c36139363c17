"""How a part is on a node, and who is told when that changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from agent_runtime.model.parts import Part


class Condition(Enum):
    """How a part is on this node; as `PartCondition` in the contract."""

    STARTING = 1
    LIVE = 2
    STOPPED = 3
    HANDED_OVER = 4
    GIVEN_UP = 5


@dataclass(slots=True)
class PartState:
    """A part on this node. `term`: revision of its entry while it is owned."""

    part: Part
    slot: int
    condition: Condition = Condition.STARTING
    term: int = 0
    through: int = 0
    reason: str = ""
    statistics: dict[str, int] = field(default_factory=dict)


class PartObserver(Protocol):
    """Whose slots these are: it is told what becomes of parts."""

    async def list_muted(self, part: Part) -> tuple[str, ...]:
        """Which agents of a part are muted. Raises CommandError: it is not known now."""
        ...

    async def part_hosted(self, state: PartState) -> None:
        """The part is owned by the slot's worker; what was told of its agents before has to be told again."""

    async def part_refused(self, state: PartState) -> None:
        """The worker cannot have the part; the slot has let it go."""

    async def part_orphaned(self, state: PartState) -> None:
        """The process that owned the part is dead for sure."""

    async def parts_given_up(self, states: list[PartState]) -> None:
        """The slot's worker ended too often; the slot has let them go."""

    def heard(self, told: dict[str, Any]) -> None:
        """What else the worker says by itself."""

    def log(self, text: str, worker: int) -> None:
        """A line of the worker, or about it."""

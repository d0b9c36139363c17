"""How full a group is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TurnsStatistics:
    """Where the turns of one group in one worker are.

    Attributes:
        agents: agents of the group that live here.
        notices_waiting: notices whose turns have not all been started.
        running: turns that run: that think, ask or commit.
        mailed: notices in mailboxes of busy agents.
        ended: turns that have ended in this worker, by status.
    """

    agents: int
    notices_waiting: int
    running: int
    mailed: int
    ended: Mapping[str, int] = field(default_factory=dict)

    def count(self) -> dict[str, int]:
        """All of it as counts by name; turns that have ended as `ended_ok` and so on."""
        counts = {name: getattr(self, name) for name in ("agents", "notices_waiting", "running", "mailed")}
        return counts | {f"ended_{status}": count for status, count in self.ended.items()}

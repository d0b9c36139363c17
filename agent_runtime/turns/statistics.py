"""How full a group is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnsStatistics:
    """Where the turns of one group in one worker are.

    Attributes:
        agents: agents of the group that live here.
        notices_waiting: notices whose turns have not all been started.
        running: turns that run: that think, ask or commit.
        mailed: notices in mailboxes of busy agents.
    """

    agents: int
    notices_waiting: int
    running: int
    mailed: int

"""A resident who ignores its routine, for a test that has to notice it."""

from __future__ import annotations

from town import Resident

from agent_runtime.agents.town_dwellers import DAY_NS, HOME, Stop, find_number

TRUANT = 3


class Truant(Resident):
    """One of them stays at home."""

    def choose_stop(self, now_ns: int) -> Stop:
        if find_number(self.id) != TRUANT:
            return self.routines.find_stop(self.id, now_ns)
        return Stop(now_ns // DAY_NS * DAY_NS, HOME, self.routines.find_home(self.id))

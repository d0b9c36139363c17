"""Residents of a small town who live by a routine: in columns, thousands at a time, without anybody who talks.

    home ──07:00─09:00──► office ──some, at noon──► café ──► office ──16:30─18:30──► home ──some──► park, café

Each day of each resident is drawn from the seed, the resident and the day alone, so it is the same whoever hosts it and
whenever it is asked for. Times are half hours: a town's clock has some twenty of them a day to go to, however many
live there. `Routines` is the plan, for all who want to follow or to check it; `TownDwellers` follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_runtime.agents.agent import GroupInfo, Routine, RuleAgents
from agent_runtime.model.draws import Draw

MINUTE_NS = 60 * 10**9
DAY_NS = 24 * 60 * MINUTE_NS
DAYS_LOOKED_AT = 400
WEEK, WEEKEND_FROM = 7, 5
SLOT = 30
"""Minutes between two times at which somebody may set out."""

HOME, OFFICE, CAFE, PARK = "home", "office", "cafe", "park"


class TownParameters(BaseModel):
    """What a group is told.

    Attributes:
        path: environment with the grid on which they live; one entry a resident.
        residents: how many live in the town, whatever group they are of. Who they are, and where they live and work,
            follows from the number at the end of their ids.
        lunch_share, evening_share, outing_share: how many of them go to a café at noon of a weekday, go out in the
            evening of a weekday, and of a day of the weekend.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    seed: int
    residents: int = Field(ge=1)
    household: int = Field(default=3, ge=1)
    office_size: int = Field(default=20, ge=1)
    cafe_size: int = Field(default=100, ge=1)
    parks: int = Field(default=2, ge=0)
    lunch_share: float = Field(default=0.4, ge=0, le=1)
    evening_share: float = Field(default=0.25, ge=0, le=1)
    outing_share: float = Field(default=0.6, ge=0, le=1)


class Stop(NamedTuple):
    """From `at_ns` on a resident is in a cell, which is a place of a kind."""

    at_ns: int
    kind: str
    cell: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TownMap:
    """Where places lie: each kind in rows of its own, one cell a place."""

    width: int
    height: int
    rows: dict[str, tuple[int, int]]
    """First row and the one after the last of each kind."""
    counts: dict[str, int]

    def find_cell(self, kind: str, number: int) -> tuple[int, int]:
        """The cell of a place of a kind."""
        return number % self.width, self.rows[kind][0] + number // self.width


def draw_map(parameters: TownParameters) -> TownMap:
    """As many places as its residents need."""
    residents = parameters.residents
    counts = {
        HOME: -(-residents // parameters.household),
        OFFICE: -(-residents // parameters.office_size),
        CAFE: -(-residents // parameters.cafe_size),
        PARK: parameters.parks,
    }
    width = max(4, round(counts[HOME] ** 0.5))
    rows, top = {}, 0
    for kind, count in counts.items():
        rows[kind] = (top, top + max(1, -(-count // width)))
        top = rows[kind][1]
    return TownMap(width, top, rows, counts)


class Routines:
    """Where each resident is to be when."""

    def __init__(self, parameters: TownParameters) -> None:
        self._parameters = parameters
        self.map = draw_map(parameters)
        self._homes: dict[str, tuple[int, int]] = {}
        self._days: dict[str, tuple[int, tuple[Stop, ...]]] = {}
        """The day of each resident that was asked for last."""

    def find_home(self, agent_id: str) -> tuple[int, int]:
        """Where a resident lives."""
        known = self._homes.get(agent_id)
        if known is None:
            cell = self.map.find_cell(HOME, find_number(agent_id) % self.map.counts[HOME])
            known = self._homes[agent_id] = cell
        return known

    def find_office(self, agent_id: str) -> tuple[int, int]:
        """Where a resident works; who live together mostly do not."""
        return self.map.find_cell(
            OFFICE, find_number(agent_id) // self._parameters.office_size % self.map.counts[OFFICE]
        )

    def list_stops(self, agent_id: str, day: int) -> tuple[Stop, ...]:
        """Where it goes on a day, in order; it begins and ends at home."""
        known = self._days.get(agent_id)
        if known is None or known[0] != day:
            known = self._days[agent_id] = (day, tuple(self._draw_day(agent_id, day)))
        return known[1]

    def find_next(self, agent_id: str, after_ns: int) -> Stop:
        """The first stop after a time. Raises LookupError: it never goes out."""
        today = after_ns // DAY_NS
        for day in range(today, today + DAYS_LOOKED_AT):
            for stop in self.list_stops(agent_id, day):
                if stop.at_ns > after_ns:
                    return stop
        raise LookupError(f"{agent_id} stays at home for {DAYS_LOOKED_AT} days")

    def find_stop(self, agent_id: str, at_ns: int) -> Stop:
        """The last stop not after a time."""
        day = at_ns // DAY_NS
        past = [stop for stop in self.list_stops(agent_id, day) if stop.at_ns <= at_ns]
        return past[-1] if past else self._begin_day(agent_id, day)

    def find_place(self, agent_id: str, at_ns: int) -> tuple[Stop, Stop]:
        """What `find_stop` and `find_next` say, in one look. Raises LookupError."""
        day = at_ns // DAY_NS
        here: Stop | None = None
        for stop in self.list_stops(agent_id, day):
            if stop.at_ns > at_ns:
                return here or self._begin_day(agent_id, day), stop
            here = stop
        return here or self._begin_day(agent_id, day), self.find_next(agent_id, at_ns)

    def _begin_day(self, agent_id: str, day: int) -> Stop:
        return Stop(day * DAY_NS, HOME, self.find_home(agent_id))

    def _draw_day(self, agent_id: str, day: int) -> list[Stop]:
        parameters = self._parameters
        draw = Draw(parameters.seed, agent_id, day, 0)
        home = (HOME, self.find_home(agent_id))
        plan: list[tuple[int, tuple[str, tuple[int, int]]]] = []
        if day % WEEK >= WEEKEND_FROM:
            if draw.random() < parameters.outing_share:
                leaves = 600 + SLOT * draw.randrange(9)
                plan = [(leaves, self._draw_outing(draw)), (leaves + 120 + SLOT * draw.randrange(5), home)]
        else:
            office = (OFFICE, self.find_office(agent_id))
            # The sum of two dice: most leave around eight and come home around half past five.
            plan = [(420 + SLOT * (draw.randrange(3) + draw.randrange(3)), office)]
            if draw.random() < parameters.lunch_share:
                noon = 720 + SLOT * draw.randrange(2)
                plan += [(noon, self._draw_place(draw, CAFE)), (noon + 60, office)]
            plan.append((990 + SLOT * (draw.randrange(3) + draw.randrange(3)), home))
            if draw.random() < parameters.evening_share:
                plan += [(1140 + SLOT * draw.randrange(2), self._draw_outing(draw))]
                plan += [(1260 + SLOT * draw.randrange(3), home)]
        return [Stop(day * DAY_NS + minute * MINUTE_NS, *where) for minute, where in plan]

    def _draw_outing(self, draw: Draw) -> tuple[str, tuple[int, int]]:
        number = draw.randrange(self.map.counts[PARK] + self.map.counts[CAFE])
        kind, first = (PARK, 0) if number < self.map.counts[PARK] else (CAFE, self.map.counts[PARK])
        return kind, self.map.find_cell(kind, number - first)

    def _draw_place(self, draw: Draw, kind: str) -> tuple[str, tuple[int, int]]:
        return kind, self.map.find_cell(kind, draw.randrange(self.map.counts[kind]))


class TownDwellers(RuleAgents):
    """Go where their routine says, when it says so: each stop is a wake, and a move of their entry."""

    def __init__(self, group: GroupInfo) -> None:
        super().__init__(group)
        self.parameters = read_parameters(group)
        self.routines = Routines(self.parameters)

    def first_wakes(self, agent_ids: Sequence[str], first_ns: int) -> list[int]:
        """When each goes out for the first time."""
        return [self.routines.find_next(name, first_ns - 1).at_ns for name in agent_ids]

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Routine:
        """Go there; the entry's value is the minute of the day."""
        next_ns, cells = [], []
        for name, at_ns in zip(agent_ids, times_ns, strict=True):
            here, later = self.routines.find_place(name, at_ns)
            cells.append(here.cell)
            next_ns.append(later.at_ns)
        values = [at_ns % DAY_NS // MINUTE_NS for at_ns in times_ns]
        return Routine(next_ns, values, self.parameters.path, cells)


def read_parameters(group: GroupInfo) -> TownParameters:
    """Raises ValueError, in one line."""
    try:
        return TownParameters.model_validate(dict(group.parameters))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def find_number(agent_id: str) -> int:
    """The number at the end of a resident's id."""
    return int(agent_id.rpartition("-")[2])

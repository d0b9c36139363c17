"""Routines of a town: the same whoever is asked and however, within a day, from home to home."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.town_dwellers import DAY_NS, HOME, Routines, TownDwellers, TownParameters

TOLD: dict[str, Any] = {"path": "/town/streets", "seed": 7, "residents": 50}
NAMES = [f"r-{number}" for number in range(50)]


def make(**more: object) -> TownDwellers:
    return TownDwellers(GroupInfo("dwellers", {**TOLD, **more}, 1))


def test_each_day_is_a_way_from_home_to_home() -> None:
    routines = Routines(TownParameters(**TOLD))
    for name in NAMES:
        for day in range(14):
            stops = routines.list_stops(name, day)
            times = [stop.at_ns for stop in stops]
            assert times == sorted(set(times)) and all(at_ns // DAY_NS == day for at_ns in times)
            assert not stops or (stops[-1].kind, stops[-1].cell) == (HOME, routines.find_home(name))
            assert bool(stops) or day % 7 >= 5, "all go to work"
            assert all(0 <= stop.cell[0] < routines.map.width and stop.cell[1] < routines.map.height for stop in stops)


def test_what_one_does_depends_on_nobody_else() -> None:
    first_ns = make().first_wakes(NAMES, 0)
    together = make().wake_many(NAMES, first_ns)
    alone = [make().wake_many([name], [at_ns]) for name, at_ns in zip(NAMES, first_ns, strict=True)]
    assert list(together.next_ns) == [one.next_ns[0] for one in alone]
    assert together.positions == [one.positions[0] for one in alone if one.positions]
    assert all(later > at_ns for at_ns, later in zip(first_ns, together.next_ns, strict=True))


def test_where_one_is_and_where_one_goes_next_follow_from_the_day() -> None:
    routines = Routines(TownParameters(**TOLD))
    for name in NAMES[:10]:
        for day in range(8):
            stops = routines.list_stops(name, day)
            times = [day * DAY_NS, *(stop.at_ns + more for stop in stops for more in (-1, 0, 1))]
            for at_ns in times:
                here, later = routines.find_place(name, at_ns)
                assert (here, later) == (routines.find_stop(name, at_ns), routines.find_next(name, at_ns))
                past = [stop for stop in stops if stop.at_ns <= at_ns]
                assert here.cell == (past[-1].cell if past else routines.find_home(name))


def test_bad_parameters_are_told() -> None:
    with pytest.raises(ValueError, match="residents"):
        make(residents=0)


def test_who_never_goes_out_is_told() -> None:
    dwellers = Routines(TownParameters(**TOLD))
    dwellers.list_stops = lambda agent_id, day: ()  # type: ignore[method-assign]
    with pytest.raises(LookupError, match="stays at home"):
        dwellers.find_next("r-1", 0)

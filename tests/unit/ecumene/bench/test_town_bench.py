"""The benchmark of a town is one only of a town that has gone as planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ecumene.bench.processes import BenchError
from ecumene.bench.town_bench import TownPlan, check_town, plan_town
from ecumene.client import Entry, EntryKind

DAYS, RESIDENTS = 3, 12


def make_entries(plan: TownPlan) -> list[Entry]:
    return [
        Entry("/town/streets", name, EntryKind.VALUE, 0, 2 * moves, 1, 2, position=plan.homes[name])
        for name, moves in plan.moves.items()
    ]


def test_a_plan_is_what_the_routines_say_of_working_days() -> None:
    plan = plan_town(RESIDENTS, DAYS)
    assert len(plan.moves) == len(plan.homes) == RESIDENTS
    assert all(moves >= 2 * DAYS for moves in plan.moves.values()), "to work and home, each day"
    check_town(plan, make_entries(plan), plan.times + 1)


def test_a_town_in_which_nobody_or_one_less_has_moved_is_refused() -> None:
    plan = plan_town(RESIDENTS, DAYS)
    with pytest.raises(BenchError, match="12 residents have not moved"):
        check_town(plan, [], plan.times + 1)
    first, *others = make_entries(plan)
    with pytest.raises(BenchError, match="1 residents have not moved as often as planned: r-0"):
        check_town(plan, [replace(first, version=first.version - 2), *others], plan.times + 1)
    with pytest.raises(BenchError, match="not at home in the end: r-0"):
        check_town(plan, [replace(first, position=(127.0, 127.0)), *others], plan.times + 1)


@pytest.mark.parametrize("more", [0, 2])
def test_a_clock_that_went_on_less_or_more_often_is_refused(more: int) -> None:
    plan = plan_town(RESIDENTS, DAYS)
    with pytest.raises(BenchError, match="the clock went on"):
        check_town(plan, make_entries(plan), plan.times + more)

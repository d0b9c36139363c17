"""Whether all participants are idle, held against one look at each."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from env_server.model.clock_reports import ClockReport
from env_server.timeline.participants import Heard, Participant, Participants


def idle(consumed: int, wake_ns: int | None = None) -> ClockReport:
    """A report of nothing to do."""
    return ClockReport("/", "", 0, earliest_wake_ns=wake_ns, consumed_revision=consumed)


def test_it_owes_what_was_set_heard_and_told_to_all() -> None:
    everybody, heard = Participants(floor=3), Heard()
    one = Participant("one", 5, heard)
    everybody.put(one)
    assert everybody.owed(one) == 5
    heard.last = 8
    assert everybody.owed(one) == 8
    everybody.raise_floor(11)
    assert everybody.owed(one) == 11
    everybody.raise_floor(4)
    assert everybody.owed(one) == 11


def test_nobody_is_idle_without_a_report_or_behind_what_it_hears() -> None:
    everybody, heard = Participants(floor=0), Heard()
    one = Participant("one", 5, heard)
    everybody.put(one)
    assert not everybody.all_idle
    everybody.report(one, idle(4), None)
    assert not everybody.all_idle
    everybody.report(one, idle(5), None)
    assert everybody.all_idle
    heard.last = 6
    everybody.stir()
    assert not everybody.all_idle
    everybody.report(one, ClockReport("/", "one", 5, busy=True, consumed_revision=9), None)
    assert not everybody.all_idle
    everybody.report(one, None, None)
    assert not everybody.all_idle
    everybody.drop("one")
    assert everybody.all_idle and len(everybody) == 0


def test_the_earliest_wake_is_the_first_of_all() -> None:
    everybody = Participants(floor=0)
    for key, wake_ns in (("a", None), ("b", 30), ("c", 20)):
        participant = Participant(key, 1, Heard())
        everybody.put(participant)
        everybody.report(participant, idle(1, wake_ns), None)
    assert everybody.earliest_wake_ns == 20


def test_who_holds_it_is_told_with_the_reason() -> None:
    everybody = Participants(floor=0)
    reports = [None, ClockReport("/", "", 0, busy=True), idle(812), idle(840), None]
    for number, report in enumerate(reports):
        participant = Participant(f"part-{number}", 840, Heard("hears[0]: no" if number == 4 else ""))
        everybody.put(participant)
        everybody.report(participant, report, None)
    assert everybody.describe_holders(10, lambda _: True) == [
        "part-0: no report",
        "part-1: busy",
        "part-2: has consumed 812 of 840",
        "part-4: hears[0]: no",
    ]
    assert everybody.describe_holders(10, lambda _: False)[2] == "part-2: has not consumed all that it hears"
    assert everybody.describe_holders(1, lambda _: True) == ["part-0: no report", "and 3 more"]


@given(st.lists(st.tuples(st.sampled_from("prhfdsq"), st.integers(0, 4), st.integers(0, 6)), max_size=60))
def test_going_round_finds_what_a_look_at_each_finds(steps: list[tuple[str, int, int]]) -> None:
    """p put, r report idle, h heard something, f floor, d drop, s report busy, q ask."""
    everybody, heards = Participants(floor=0), [Heard(), Heard()]
    for step, number, revision in steps:
        key, participant = f"{number}", everybody.get(f"{number}")
        if step == "p":
            everybody.put(Participant(key, revision, heards[number % 2]))
        elif step == "d":
            everybody.drop(key)
        elif step == "h":
            heards[number % 2].last = max(heards[number % 2].last, revision)
            everybody.stir()
        elif step == "f":
            everybody.raise_floor(revision)
        elif participant is not None and step in "rs":
            everybody.report(participant, idle(revision) if step == "r" else ClockReport("/", key, 0, busy=True), None)
        assert everybody.all_idle == all(map(everybody.is_idle, everybody))


def test_a_report_costs_one_look_while_somebody_else_holds_the_clock() -> None:
    everybody, looks = Participants(floor=0), 0
    order = [Participant(f"{number}", 1, Heard()) for number in range(2000)]
    for participant in order:
        everybody.put(participant)
    is_idle = everybody.is_idle

    def count(participant: Participant) -> bool:
        nonlocal looks
        looks += 1
        return is_idle(participant)

    everybody.is_idle = count  # type: ignore[method-assign]
    random.Random(5).shuffle(order)
    for participant in order:
        everybody.report(participant, idle(1), None)
        last = everybody.all_idle
    assert last and looks <= 3 * len(order), looks

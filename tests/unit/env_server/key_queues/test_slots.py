"""Slots: bounds for all and for one environment, first come first served among those that fit."""

from __future__ import annotations

from collections.abc import Callable

from env_server.key_queues.slots import Slots


def test_slots_are_handed_to_the_first_that_fits() -> None:
    ready: list[Callable[[], None]] = []
    started: list[str] = []
    slots = Slots(2, ready.append)

    def take(name: str, environment: int, maximum: int = 0) -> None:
        if slots.take(environment, maximum, lambda: started.append(name)):
            started.append(name)

    take("a1", 1, 1)
    take("a2", 1, 1)
    take("b1", 2)
    take("b2", 2)
    assert started == ["a1", "b1"]
    assert slots.waiting == 2
    slots.give_back(2)
    ready.pop()()
    assert started == ["a1", "b1", "b2"], "a2 does not fit: its environment runs one already"
    slots.give_back(1)
    ready.pop()()
    assert started[-1] == "a2"
    slots.give_back(1)
    slots.give_back(2)
    assert (ready, slots.waiting) == ([], 0)


def test_a_waiting_operation_withdraws_and_a_running_one_does_not() -> None:
    slots = Slots(1, lambda call: call())
    started: list[str] = []

    def first() -> None:
        started.append("first")

    def second() -> None:
        started.append("second")

    assert slots.take(1, 0, first)
    assert not slots.take(1, 0, second)
    assert not slots.try_withdraw(first)
    assert slots.try_withdraw(second)
    assert not slots.try_withdraw(second)
    slots.give_back(1)
    assert started == []

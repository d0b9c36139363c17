"""Slots: bounds for all worlds and for one environment, first come first served among those that fit."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from env_server.key_queues.slots import Pool, Slots


def test_slots_are_handed_to_the_first_that_fits() -> None:
    ready: list[Callable[[], None]] = []
    started: list[str] = []
    slots = Slots(Pool(2), ready.append, lambda environment: {1: 1}.get(environment, 0))

    def take(name: str, environment: int) -> None:
        if slots.take(environment, lambda: started.append(name)):
            started.append(name)

    take("a1", 1)
    take("a2", 1)
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
    slots = Slots(Pool(1), lambda call: call())
    started: list[str] = []

    def first() -> None:
        started.append("first")

    def second() -> None:
        started.append("second")

    assert slots.take(1, first)
    assert not slots.take(1, second)
    assert not slots.try_withdraw(first)
    assert slots.try_withdraw(second)
    assert not slots.try_withdraw(second)
    slots.give_back(1)
    assert started == []


def test_worlds_that_share_a_pool_take_turns() -> None:
    pool, started = Pool(1), []
    worlds = [Slots(pool, lambda call: call()) for _ in range(3)]
    assert worlds[0].take(1, lambda: None)
    for number in (0, 1, 2):
        for _ in range(2):
            assert not worlds[number].take(1, lambda number=number: started.append(number))
    for running in (0, 0, 1, 2, 0, 1, 2):
        worlds[running].give_back(1)
    assert started == [0, 1, 2, 0, 1, 2]
    assert pool.free == 1


def test_a_bound_that_was_raised_holds_for_those_that_wait_already() -> None:
    bounds, started = {1: 1}, []
    slots = Slots(Pool(10), lambda call: call(), lambda environment: bounds[environment])
    assert slots.take(1, lambda: None)
    assert not slots.take(1, lambda: started.append("a"))
    assert not slots.take(1, lambda: started.append("b"))
    bounds[1] = 5
    slots.give_back(1)
    slots.give_back(1)
    assert started == ["a", "b"]


def test_a_world_that_is_gone_starts_nothing_and_gives_back_what_runs() -> None:
    pool, started = Pool(1), []
    gone, other = (Slots(pool, lambda call: call()) for _ in range(2))
    assert gone.take(1, lambda: None)
    assert not gone.take(1, lambda: started.append("gone"))
    assert not other.take(1, lambda: started.append("other"))
    gone.end()
    gone.give_back(1)
    assert started == ["other"]


@pytest.mark.parametrize("seed", range(10))
def test_random_operations_of_many_worlds_keep_all_bounds_and_lose_no_slot(seed: int) -> None:
    print("seed", seed)
    chance, total = random.Random(seed), 5
    pool = Pool(total)
    bounds = {environment: chance.randrange(4) for environment in range(4)}
    running: list[tuple[int, int]] = []
    worlds = [Slots(pool, lambda call: call(), lambda environment: bounds[environment]) for _ in range(3)]
    waiting: list[tuple[int, Callable[[], None]]] = []
    for _ in range(2000):
        if running and chance.random() < 0.5:
            world, environment = running.pop(chance.randrange(len(running)))
            worlds[world].give_back(environment)
        elif waiting and chance.random() < 0.1:
            world, start = waiting.pop(chance.randrange(len(waiting)))
            worlds[world].try_withdraw(start)
        else:
            place = chance.randrange(3), chance.randrange(4)

            def start(place: tuple[int, int] = place) -> None:
                running.append(place)

            if worlds[place[0]].take(place[1], start):
                start()
            else:
                waiting.append((place[0], start))
        assert pool.free == total - len(running) >= 0
        for place in set(running):
            assert not bounds[place[1]] or running.count(place) <= bounds[place[1]]
        fits = [
            place
            for place in ((world, environment) for world in range(3) for environment in range(4))
            if not bounds[place[1]] or running.count(place) < bounds[place[1]]
        ]
        if pool.free and len(fits) == 12:
            assert not any(one.waiting for one in worlds), "a slot is free, everything fits, and somebody waits"
    while running:
        world, environment = running.pop()
        worlds[world].give_back(environment)
    assert (pool.free, [one.waiting for one in worlds]) == (total, [0, 0, 0])

"""The lowest of many numbers."""

import random

from env_server.subscriptions.lowest import Lowest


def test_the_lowest_is_found_whatever_rose_fell_or_went(seed: int) -> None:
    chance = random.Random(seed)
    numbers: dict[str, int] = {}
    lowest: Lowest[str] = Lowest(lambda name: numbers[name])
    for _ in range(5000):
        name = f"n{chance.randrange(40)}"
        if name not in numbers or chance.random() < 0.1:
            numbers[name] = chance.randrange(100)
            lowest.note(name)
        elif chance.random() < 0.1:
            lowest.drop(name)
            del numbers[name]
        else:
            numbers[name] += chance.randrange(20)
        found = lowest.find()
        assert (found is None) == (not numbers)
        if found is not None:
            assert found[0] == min(numbers.values()) == numbers[found[1]]
        below = chance.randrange(150)
        bounded = lowest.find(below)
        if any(number < below for number in numbers.values()):
            assert bounded == found


def test_one_that_is_noted_again_and_again_takes_no_more_room() -> None:
    numbers = {"a": 1, "b": 2}
    lowest: Lowest[str] = Lowest(lambda name: numbers[name])
    for number in range(10_000):
        numbers["b"] = 10_000 - number
        lowest.note("b")
    assert len(lowest._heap) < 100

"""What was delivered and not acknowledged."""

import random

from env_server.subscriptions.outstanding import Outstanding


def test_counts_equal_those_of_a_list(seed: int) -> None:
    chance = random.Random(seed)
    outstanding, expected, revision, acknowledged = Outstanding(), [], 0, 0
    for _ in range(3000):
        if chance.random() < 0.6:
            more = []
            for _ in range(chance.randrange(1, 6)):
                revision += chance.randrange(2)
                more.append(revision)
            revision += 1
            outstanding.add(more, acknowledged)
            expected += more
        else:
            acknowledged = chance.randint(acknowledged, revision)
        assert outstanding.count_after(acknowledged) == sum(one > acknowledged for one in expected)
    outstanding.clear()
    assert outstanding.count_after(0) == 0


def test_an_acknowledgement_that_is_taken_back_counts_again() -> None:
    outstanding = Outstanding()
    outstanding.add([3, 3, 4], 0)
    assert [outstanding.count_after(revision) for revision in (3, 0, 2)] == [1, 3, 3]

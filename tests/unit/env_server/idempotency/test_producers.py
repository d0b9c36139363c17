"""Producers: the last number and its outcome, never an earlier one again."""

from __future__ import annotations

import pytest

from env_server.idempotency.producers import Producers
from env_server.model.errors import Exhausted, OutOfRange, Reason
from env_server.model.frames import Outcome, Written
from env_server.model.limits import Limits

OUTCOMES: list[Outcome] = [
    Written(7, 2),
    Written(7, 0),
    Written(7, 2, value=5),
    Written(7, 2, sequence=3),
    Written(7, 2, changed=False),
    OutOfRange(Reason.COUNTER_OVERFLOW, "too much"),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_is_returned_as_it_was(outcome: Outcome) -> None:
    producers = Producers(Limits())
    producers.keep("p", 3, outcome)
    assert producers.repeated("p", 3, producers.marks["p"]) == outcome
    other = Producers(Limits())
    for chunk in producers.round(lambda: 8192):
        for name, mark in chunk.items():
            assert mark is not None
            other.load(name, mark)
    assert other.repeated("p", 3, other.marks["p"]) == outcome
    assert list(producers.round(lambda: 8192)) == []


def test_a_lower_number_changes_nothing_and_is_refused() -> None:
    producers = Producers(Limits())
    producers.keep("p", 5, Written(9, 1))
    producers.keep("p", 3, Written(1, 1))
    producers.replay("p", 4, Written(2, 1))
    assert producers.repeated("p", 5, producers.marks["p"]) == Written(9, 1)
    with pytest.raises(OutOfRange) as caught:
        producers.repeated("p", 3, producers.marks["p"])
    assert caught.value.metadata == {"producer": "p", "seq": "3", "last_seq": "5"}


def test_the_number_of_producers_is_bounded() -> None:
    producers = Producers(Limits(producers_max=1))
    producers.check_room()
    producers.keep("p", 1, Written(1, 1))
    with pytest.raises(Exhausted) as caught:
        producers.check_room()
    assert caught.value.reason is Reason.PRODUCER_QUOTA

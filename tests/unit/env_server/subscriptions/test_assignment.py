"""Who has which partitions."""

from hypothesis import given
from hypothesis import strategies as st

from env_server.subscriptions.assignment import plan_assignment

COUNTS = st.integers(1, 256)


def check(partitions: int, planned: dict[int, tuple[int, ...]]) -> None:
    """Every partition has one holder, and shares are even."""
    assert sorted(partition for mine in planned.values() for partition in mine) == list(range(partitions))
    sizes = [len(mine) for mine in planned.values()]
    assert max(sizes) - min(sizes) <= 1


def count_moves(before: dict[int, tuple[int, ...]], after: dict[int, tuple[int, ...]]) -> int:
    """Partitions taken from somebody who is still there."""
    return sum(len(set(before[name]) - set(after[name])) for name in before.keys() & after.keys())


@given(COUNTS, st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30))
def test_shares_stay_even_and_nothing_moves_that_need_not(partitions: int, steps: list[tuple[bool, int]]) -> None:
    held: dict[int, tuple[int, ...]] = {}
    for joins, name in steps:
        if joins:
            held.setdefault(name, ())
        else:
            held.pop(name, None)
        if not held:
            continue
        planned = plan_assignment(partitions, held)
        check(partitions, planned)
        # Whoever holds more than an even share allows has to give the excess away, and nobody anything else.
        share, larger = divmod(partitions, len(held))
        sizes = sorted((len(mine) for mine in held.values()), reverse=True)
        needed = sum(max(0, size - share - (rank < larger)) for rank, size in enumerate(sizes))
        assert count_moves(held, planned) == needed
        assert list(planned) == list(held)
        held = planned


def test_one_that_joins_takes_only_its_own_share() -> None:
    three = plan_assignment(64, {"a": (), "b": (), "c": ()})
    assert sorted(map(len, three.values())) == [21, 21, 22]
    four = plan_assignment(64, {**three, "d": ()})
    assert len(four["d"]) == 16
    assert all(set(four[name]) < set(three[name]) for name in three)
    without = plan_assignment(64, {name: four[name] for name in "abc"})
    assert all(set(four[name]) < set(without[name]) for name in "abc")


def test_consumers_beyond_the_partitions_stand_by() -> None:
    assert plan_assignment(2, {"a": (0,), "b": (1,), "c": ()}) == {"a": (0,), "b": (1,), "c": ()}

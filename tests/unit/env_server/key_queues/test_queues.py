"""Tickets start in order of arrival on each key; the whole environment counts as every key; nothing is left over."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from env_server.key_queues.queues import Key, KeyQueues, KeyQueueStatistics, Ticket


class Hall:
    """Queues, and who has started in which order."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self.queues = KeyQueues(self.ready.append)
        self.started: list[str] = []

    def enter(self, name: str, *keys: Key, client_id: str = "") -> Ticket:
        ticket = Ticket(keys, lambda: self.started.append(name), client_id)
        if self.queues.enter(ticket):
            self.started.append(name)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self.queues.leave(ticket)
        while self.ready:
            self.ready.popleft()()


def test_the_example_of_the_module_holds() -> None:
    hall = Hall()
    first, second = hall.enter("T1", (1, "a")), hall.enter("T2", (1, "b"))
    whole, last = hall.enter("T3", (1, None)), hall.enter("T4", (1, "a"), (1, "b"))
    assert hall.started == ["T1", "T2"]
    hall.leave(second)
    assert hall.started == ["T1", "T2"]
    hall.leave(first)
    assert hall.started == ["T1", "T2", "T3"]
    hall.leave(whole)
    assert hall.started == ["T1", "T2", "T3", "T4"]
    hall.leave(last)
    assert hall.queues.environments == {}
    assert hall.queues.statistics() == KeyQueueStatistics(0, 0, 2)


def test_an_op_that_gives_up_lets_those_behind_it_go_on() -> None:
    hall = Hall()
    hall.enter("T1", (1, "a"))
    whole = hall.enter("T2", (1, None))
    hall.enter("T3", (1, "b"))
    assert hall.queues.try_withdraw(whole)
    while hall.ready:
        hall.ready.popleft()()
    assert hall.started == ["T1", "T3"]


def test_what_has_started_does_not_withdraw() -> None:
    hall = Hall()
    ticket = hall.enter("T1", (1, "a"))
    assert not hall.queues.try_withdraw(ticket)
    assert hall.queues.blocked([(1, "a")])
    assert hall.queues.blocked([(1, None)])
    assert not hall.queues.blocked([(1, "b"), (2, None)])


def test_a_key_named_twice_or_within_the_whole_is_entered_once() -> None:
    hall = Hall()
    ticket = hall.enter("T", (1, "a"), (1, "a"), (1, None), (2, "b"), (2, "b"))
    assert ticket.keys == ((1, None), (2, "b"))
    hall.leave(ticket)
    assert hall.queues.environments == {}


def test_a_clients_own_ops_are_found_on_a_key_and_on_the_whole() -> None:
    hall = Hall()
    hall.enter("T1", (1, "a"), client_id="ann")
    hall.enter("T2", (2, None), client_id="bob")
    assert hall.queues.of_client("ann", 1, "a")
    assert hall.queues.of_client("bob", 2, "x")
    assert not hall.queues.of_client("bob", 1, "a")
    assert not hall.queues.of_client("ann", 3, "a")


def test_random_tickets_never_overlap_and_always_start_in_order(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        hall = Hall()
        tickets: dict[str, Ticket] = {}
        for number in range(chance.randrange(1, 30)):
            keys = [(chance.randrange(2), chance.choice(["a", "b", "c", None])) for _ in range(chance.randrange(1, 4))]
            tickets[f"T{number}"] = hall.enter(f"T{number}", *keys)
            check_order(tickets, hall)
            if chance.random() < 0.4:
                end_one(tickets, hall, chance)
        while tickets:
            assert any(ticket.started for ticket in tickets.values()), "a circle of waiting"
            end_one(tickets, hall, chance)
            check_order(tickets, hall)
        assert hall.queues.environments == {}
        statistics = hall.queues.statistics()
        assert (statistics.holding, statistics.waiting) == (0, 0)


def end_one(tickets: dict[str, Ticket], hall: Hall, chance: random.Random) -> None:
    name = chance.choice(sorted(tickets))
    ticket = tickets[name]
    if ticket.started or chance.random() < 0.2:
        del tickets[name]
        hall.leave(ticket)


def check_order(tickets: dict[str, Ticket], hall: Hall) -> None:
    """A ticket has started exactly when no earlier living one conflicts with it."""
    living = sorted(tickets.values(), key=lambda ticket: ticket.order)
    for place, ticket in enumerate(living):
        blocked = any(conflict(ticket, earlier) for earlier in living[:place])
        assert ticket.started is not blocked


def conflict(left: Ticket, right: Ticket) -> bool:
    return any(
        number == other and (key is None or rival is None or key == rival)
        for number, key in left.keys
        for other, rival in right.keys
    )

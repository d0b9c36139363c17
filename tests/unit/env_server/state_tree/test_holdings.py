"""What lives under each lease, also when environments come and go."""

from __future__ import annotations

import random

import pytest

from env_server.model.errors import NotFound, Reason
from env_server.model.limits import Limits
from env_server.state_tree.holdings import Holdings
from env_server.state_tree.nodes import Node, Nodes


class Room:
    """A tree of bare nodes below the root."""

    def __init__(self) -> None:
        self.nodes = Nodes(Limits())
        self.holdings = Holdings(self.nodes)

    def attach(self) -> Node:
        number = self.nodes.next_number
        return self.nodes.attach(number, self.nodes.root, f"n{number}")

    def remove(self, node: Node) -> None:
        self.nodes.by_number.pop(node.number)
        self.nodes.by_path.pop(node.path)

    def told(self, lease: int) -> dict[str, list[str]]:
        return {node.path: list(keys) for node, keys in self.holdings.of(lease)}


def test_a_world_without_leases_has_none() -> None:
    holdings = Room().holdings
    with pytest.raises(NotFound) as absent:
        holdings.leases.check(3)
    assert absent.value.reason is Reason.LEASE_NOT_FOUND
    assert not holdings.leases.lives(3)
    assert not holdings.holds(3)
    assert holdings.count(3) == 0
    assert list(holdings.of(3)) == []


def test_rows_of_one_lease_share_what_they_tell() -> None:
    holdings = Room().holdings
    extra = holdings.extra_of(5)
    assert extra.lease == 5
    assert holdings.extra_of(5) is extra
    assert holdings.extra_of(6).lease == 6
    assert extra.lease == 5


def test_what_is_gone_with_its_environment_is_dropped_when_it_is_looked_for() -> None:
    room = Room()
    hall, den = room.attach(), room.attach()
    for key in ("", "a", "b"):
        room.holdings.add(7, hall, key)
    room.holdings.add(7, den, "c")
    assert (room.holdings.count(7), room.told(7)) == (4, {hall.path: ["", "a", "b"], den.path: ["c"]})
    room.remove(hall)
    assert (room.holdings.count(7), room.told(7)) == (1, {den.path: ["c"]})
    room.remove(den)
    assert room.holdings.holds(7)
    assert (room.holdings.count(7), room.told(7)) == (0, {})
    assert not room.holdings.holds(7)
    assert room.holdings.leases_with_any() == []


def test_what_may_come_back_is_kept() -> None:
    room = Room()
    gone = room.attach()
    room.holdings.add(7, gone, "a")
    room.remove(gone)
    for _ in range(200):
        room.holdings.add(7, room.attach(), "k", may_forget=False)
    room.nodes.by_number[gone.number] = gone
    assert room.holdings.count(7) == 201
    room.remove(room.attach())
    for _ in range(2000):
        node = room.attach()
        room.holdings.add(7, node, "k")
        room.remove(node)
    assert len(room.holdings._by_lease[7].by_number) <= 2 * 201 + 2
    assert room.holdings.count(7) == 201


def test_any_course_of_events_agrees_with_a_set(seed: int) -> None:
    chance, room = random.Random(seed), Room()
    nodes = [room.attach() for _ in range(4)]
    held: dict[tuple[int, int, str], Node] = {}
    for _ in range(5000):
        action = chance.random()
        if action < 0.55:
            node, lease, key = chance.choice(nodes), chance.randrange(5), f"k{chance.randrange(6)}"
            if not any((other, node.number, key) in held for other in range(5)):
                room.holdings.add(lease, node, key, may_forget=chance.random() < 0.5)
                held[lease, node.number, key] = node
        elif action < 0.97 and held:
            lease, number, key = chance.choice(list(held))
            room.holdings.discard(lease, held.pop((lease, number, key)), key)
        elif action >= 0.97:
            gone = nodes.pop(chance.randrange(len(nodes)))
            room.remove(gone)
            nodes.append(room.attach())
            held = {place: node for place, node in held.items() if node is not gone}
        for lease in range(5):
            mine = sorted((number, key) for other, number, key in held if other == lease)
            assert room.holdings.count(lease) == len(mine)
            if chance.random() < 0.1:
                told = [(node.number, key) for node, keys in room.holdings.of(lease) for key in keys]
                assert sorted(told) == mine
                assert room.holdings.holds(lease) is bool(mine)

"""Deadlines of gates, on the engine's clock.

A deadline counts from the begin of the generation, whenever it was declared. When that was is kept as a fact, so that
a restart takes nothing back: time during which no server ran counts as any other. It is the monotonic time of a
machine, between two starts of it, in one history of one world; where another clock counts, or in a copy of the world,
a generation is taken to begin with the start of the server. No wall clock has a say.
"""

import json
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from env_server.model.changes import FactKind
from env_server.model.environments import Gate
from env_server.model.ports import Clock, Handle
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.own_changes import OwnChanges
from env_server.pipeline.recovery import Recovered
from env_server.state_tree.environment_writes import expire_gate
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree

_NS_A_MS: Final = 1_000_000


class _Begun(NamedTuple):
    """When a generation began; its revision tells it from all others."""

    revision: int
    at_ns: int


class GateTimers:
    """One timer for each gate that collects until a deadline."""

    def __init__(self, tree: Tree, clock: Clock, own: OwnChanges, commits: Commits, recovered: Recovered) -> None:
        facts = recovered.facts[FactKind.GATE]
        self._tree = tree
        self._clock = clock
        self._own = own
        self._commits = commits
        self._history = recovered.history
        self._timers: dict[int, Handle] = {}
        #: Generations that collect, with a deadline or without.
        self._begun: WeakKeyDictionary[Node, _Begun] = WeakKeyDictionary()
        #: As noted last.
        self._facts = dict(facts)
        for key, fact in facts.items():
            self._recover(key, fact)

    def arm(self) -> None:
        """Sets the timers of all gates that began a generation, opened or were declared anew since the last call."""
        if not self._tree.timed:
            return
        timed, self._tree.timed = self._tree.timed, []
        for node in timed:
            self._set(node)

    @property
    def any_due(self) -> bool:
        """Whether a gate collects until a deadline that is still to come."""
        by_number = self._tree.nodes.by_number
        nodes = (by_number.get(number) for number in self._timers)
        gates = (node.gate for node in nodes if node is not None)
        return any(gate is not None and gate.collecting and gate.deadline_ms for gate in gates)

    def stop(self) -> None:
        """Cancels all."""
        for timer in self._timers.values():
            timer.cancel()

    def _recover(self, key: str, fact: bytes) -> None:
        node = self._tree.nodes.by_number.get(int(key))
        if node is None:
            self._note(key, None)
            return
        form = json.loads(fact)
        at_ns = form["at_ns"]
        is_known = form["clock"] and (form["clock"], form["history"]) == (self._clock.origin(), self._history)
        if is_known and at_ns <= self._clock.monotonic_ns():
            self._begun[node] = _Begun(form["revision"], at_ns)
        self._tree.timed.append(node)

    def _set(self, node: Node) -> None:
        """Lets timer and fact be those of the gate as it is now."""
        timer = self._timers.pop(node.number, None)
        if timer is not None:
            timer.cancel()
        gate = self._find_collecting(node)
        if gate is None:
            self._begun.pop(node, None)
            self._note(str(node.number), None)
            return
        begun = self._begun.get(node)
        if begun is None or begun.revision != gate.begin_revision:
            begun = self._begun[node] = _Begun(gate.begin_revision, self._clock.monotonic_ns())
        if gate.deadline_ms:
            delay_s = max(0, self._remaining_ns(begun, gate)) / 1e9
            self._timers[node.number] = self._clock.call_later(delay_s, partial(self._expire, node))
        self._note(str(node.number), self._fact_of(begun) if gate.deadline_ms else None)

    def _find_collecting(self, node: Node) -> Gate | None:
        """The node's gate if it is there and collects."""
        gate = node.gate
        lives = self._tree.nodes.by_number.get(node.number) is node
        return gate if lives and gate is not None and gate.collecting else None

    def _remaining_ns(self, begun: _Begun, gate: Gate) -> int:
        return begun.at_ns + gate.deadline_ms * _NS_A_MS - self._clock.monotonic_ns()

    def _expire(self, node: Node) -> None:
        """The deadline has passed, or come near: opens the gate, behind whoever holds the environment."""
        self._own.make([(node.number, "")], lambda: self._open(node))

    def _open(self, node: Node) -> bool:
        """Opens the gate if its deadline, which may be another one meanwhile, has passed."""
        gate, begun = self._find_collecting(node), self._begun.get(node)
        is_due = (
            gate is not None
            and begun is not None
            and gate.deadline_ms > 0
            and begun.revision == gate.begin_revision
            and self._remaining_ns(begun, gate) <= 0
        )
        if gate is not None and is_due:
            expire_gate(self._tree, node, gate.generation)
        self._set(node)
        return is_due

    def _fact_of(self, begun: _Begun) -> bytes:
        form = {
            "revision": begun.revision,
            "at_ns": begun.at_ns,
            "clock": self._clock.origin(),
            "history": self._history,
        }
        return json.dumps(form, separators=(",", ":")).encode()

    def _note(self, key: str, fact: bytes | None) -> None:
        if self._facts.get(key) == fact:
            return
        if fact is None:
            del self._facts[key]
        else:
            self._facts[key] = fact
        self._tree.note_fact(FactKind.GATE, key, fact)
        self._commits.touch()

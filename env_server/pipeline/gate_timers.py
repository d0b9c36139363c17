"""Deadlines of gates, on the engine's clock."""

from functools import partial

from env_server.model.ports import Clock, Handle
from env_server.pipeline.own_changes import OwnChanges
from env_server.state_tree.environment_writes import expire_gate
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree


class GateTimers:
    """One timer for each gate that collects until a deadline."""

    def __init__(self, tree: Tree, clock: Clock, own: OwnChanges) -> None:
        self._tree = tree
        self._clock = clock
        self._own = own
        self._timers: dict[int, Handle] = {}

    def arm(self) -> None:
        """Sets a timer for each gate that began a generation with a deadline since the last call."""
        timed, self._tree.timed = self._tree.timed, []
        for node in timed:
            gate = node.gate
            if gate is None or not gate.collecting or not gate.deadline_ms:
                continue
            old = self._timers.pop(node.number, None)
            if old is not None:
                old.cancel()
            expire = partial(self._expire, node, gate.generation)
            self._timers[node.number] = self._clock.call_later(gate.deadline_ms / 1000, expire)

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

    def _expire(self, node: Node, generation: int) -> None:
        """The deadline passed: opens the gate, behind whoever holds the environment."""
        self._timers.pop(node.number, None)

        def open_gate() -> bool:
            lives = self._tree.nodes.by_number.get(node.number) is node
            return lives and expire_gate(self._tree, node, generation)

        self._own.make([(node.number, "")], open_gate)

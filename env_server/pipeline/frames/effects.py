"""Effects: what each code of write does, in whatever op it stands: alone, in a transaction, beside an operation.

State that is no entry (leases, subscriptions) is kept by rooms of its own; each serves its codes here.
"""

from collections.abc import Callable
from typing import Any

from env_server.model.changes import EventType
from env_server.model.frames import Written
from env_server.model.operations import Code
from env_server.state_tree import deletion, entry_writes, environment_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree

Effect = Callable[[Any], Written]
"""Checks the argument of an op, then applies it as part of the running op; when it raises nothing has changed. What it
changes outside the tree it takes back by the tree's journal, when there is one.
"""
PlacedEffect = Callable[[Node, str, Any], Written]
"""The same, in an environment and under a key."""


class Effects:
    """The writes of one world."""

    def __init__(self, tree: Tree, check_kind: Callable[[str], None]) -> None:
        """`check_kind` raises NotFound for a kind of environment that no behaviour serves."""
        self._tree = tree
        self._check_kind = check_kind
        self._served: dict[int, Effect] = {}
        self._placed: dict[int, PlacedEffect] = {}

    def serve(self, code: Code, effect: Effect) -> None:
        """Gives a code that needs neither path nor key to the room that keeps its state."""
        self._served[code] = effect

    def serve_at(self, code: Code, effect: PlacedEffect) -> None:
        """Gives a code that names a place to the room that keeps its state."""
        self._placed[code] = effect

    def apply(self, path: str, key: str, code: int, argument: Any) -> Written:
        """Applies one write as part of the running op. The caller advances the tree.

        Raises:
            WorldError: nothing has changed, unless it was an UPDATE_ENVIRONMENT: take that back.
        """
        tree = self._tree
        match code:
            case Code.REGISTER_ENVIRONMENT:
                self._check_kind(argument.declaration.kind)
                return environment_writes.register(tree, path, argument)
            case Code.DELETE_ENVIRONMENT:
                return deletion.delete(tree, path, argument)
            case Code.REFUSED:
                raise argument
            case _ if code in self._served:
                return self._served[code](argument)
            case _:
                pass
        node = tree.nodes.find(path)
        match code:
            case Code.UPDATE_ENVIRONMENT:
                return environment_writes.update(tree, node, argument)
            case Code.EMIT:
                tree.row(node, EventType.BEHAVIOUR, key, argument, 0)
                return Written(tree.revision + 1, 0)
            case _ if code in self._placed:
                return self._placed[code](node, key, argument)
            case _:
                if code == Code.SET and node.schema is not None:
                    tree.schemas.check(node, key, argument)
                done = entry_writes.BY_CODE[code](tree, node, key, argument)
                return done or Written(tree.revision + 1, node.entries[key].version)

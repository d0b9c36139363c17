"""Changes that nobody asked for: the world makes them by itself, as ops of their own, when their keys are free."""

from collections.abc import Callable

from env_server.key_queues.queues import Key, KeyQueues, Ticket
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.frames.origins import attribute_rows
from env_server.state_tree.tree import Tree


class OwnChanges:
    """Lets the world change itself in the order that ops have."""

    def __init__(self, tree: Tree, queues: KeyQueues, commits: Commits) -> None:
        self._tree = tree
        self._queues = queues
        self._commits = commits

    def make(self, keys: list[Key], effect: Callable[[], bool], cause: str = "") -> None:
        """Calls `effect` at once, or behind those who hold the keys; True from it means that it has written rows.

        `cause` is told with them.
        """
        if not self._queues.blocked(keys):
            self._apply(effect, cause)
            return

        def start() -> None:
            self._apply(effect, cause)
            self._queues.leave(ticket)

        ticket = Ticket(keys, start)
        self._queues.enter(ticket)

    def find_held(self, keys: list[Key]) -> dict[Key, None]:
        """Those of the keys that somebody holds, or waits for."""
        if not self._queues.environments:
            return {}
        return {key: None for key in keys if self._queues.blocked([key])}

    def _apply(self, effect: Callable[[], bool], cause: str) -> None:
        changes = self._tree.changes
        row = len(changes)
        if effect():
            self._tree.advance()
            if cause:
                attribute_rows(changes, row, cause=cause)
            self._commits.touch()

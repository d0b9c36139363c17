"""How far listeners have heard, in two kinds of facts.

    number/listener        of one environment: with each effect, in the same record
    kind:name/listener     of all environments of a kind together, now and then: how far at least each has come

The second lets the log go although nothing matches, and says of a new listener where the world stood when it came.
After a restart an ear stands at the highest of the two and of the revision that registered its environment.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.model.changes import Changes, FactKind
from env_server.model.limits import MIB, Limits
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.commits.log_holds import LogHold
from env_server.pipeline.listeners.ears import Ear, Position
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree

_FLOOR_REVISIONS: Final = 10_000
_FLOOR_BYTES_MAX: Final = 16 * MIB
"""So much later at the latest it is noted how far all have heard, so that the log may go up to there."""

PositionOf = Callable[[Node, Listener], Position]


class Positions:
    """Notes positions of one world, and holds its log. `lowest` tells how far all have heard, None = nobody hears."""

    def __init__(
        self,
        tree: Tree,
        commits: Commits,
        log: LogHold,
        listeners: Mapping[str, tuple[Listener, ...]],
        lowest: Callable[[], int | None],
        limits: Limits,
    ) -> None:
        self._tree = tree
        self._commits = commits
        self._log = log
        self._listeners = listeners
        self._lowest = lowest
        #: What all have heard for certain after a restart.
        self._floor = self._durable_floor = 0
        #: The same for each listener; one that is new may have begun above the others.
        self._floors: dict[str, int] = {}
        self._bytes_since = 0
        self._floor_bytes = min(_FLOOR_BYTES_MAX, limits.log_bytes_max // 16)
        #: Groups that note a higher floor.
        self._rising: deque[tuple[int, int]] = deque()
        self._settling: deque[tuple[int, Callable[[], None]]] = deque()
        #: Ears that heard something without an effect, which no fact tells.
        self._unnoted: dict[Ear, None] = {}
        self._noted: set[str] = set()

    def load(self, facts: dict[str, bytes]) -> PositionOf:
        """Takes over what the facts say; notes where listeners begin that are new."""
        floors = self._floors
        for kind, listeners in self._listeners.items():
            for listener in listeners:
                key = _floor_key(kind, listener)
                if key in facts:
                    floors[key] = json.loads(facts[key])
                else:
                    floors[key] = self._tree.revision
                    self._note(key, self._tree.revision)
        self._floor = self._durable_floor = min(floors.values())
        own: dict[str, Position] = {}
        for key, value in facts.items():
            number = key.partition("/")[0]
            if not number.isdigit():
                continue
            if int(number) in self._tree.nodes.by_number:
                self._noted.add(key)
                revision, index = json.loads(value)
                own[key] = (revision, index)
            else:  # its environment is gone, and the server was before it could say so
                self._note(key, None)

        def position_of(node: Node, listener: Listener) -> Position:
            floor = floors[_floor_key(node.declaration.kind, listener)]
            return max((node.created, 0), (floor + 1, 0), own.get(f"{node.number}/{listener.name}", (0, 0)))

        return position_of

    def durable(self, number: int) -> None:
        """Everything up to this group is durable."""
        while self._rising and self._rising[0][0] <= number:
            self._durable_floor = self._rising.popleft()[1]
            self.hold()
        while self._settling and self._settling[0][0] <= number:
            self._settling.popleft()[1]()

    def passed(self, changes: Changes) -> None:
        """A group was routed to all who hear."""
        self._bytes_since += changes.size_bytes
        far = changes.last_revision - self._floor >= _FLOOR_REVISIONS
        if far or self._bytes_since >= self._floor_bytes:
            self.raise_floor()

    def settle(self, then: Callable[[], None]) -> None:
        """Notes how far all have heard, so that the log may go up to there; `then` once that is durable."""
        self.raise_floor()
        if self._rising:
            self._settling.append((self._rising[-1][0], then))
        else:
            then()

    def heard(self, ear: Ear, had_effect: bool) -> None:
        """Notes how far an ear has heard, with its effect; without one only if there is something to commit anyway.

        An event that had no effect may have none once more after a crash: that is worth no commit of its own.
        """
        changes = self._tree.changes
        if not had_effect and not len(changes) and not changes.facts:
            self._unnoted[ear] = None
            return
        self._unnoted.pop(ear, None)
        if self._tree.nodes.by_number.get(ear.node.number) is ear.node:
            self._noted.add(ear.fact_key)
            self._note(ear.fact_key, list(ear.heard))

    def forget(self, ear: Ear) -> None:
        """Its environment is gone."""
        self._unnoted.pop(ear, None)
        if ear.fact_key in self._noted:
            self._noted.discard(ear.fact_key)
            self._note(ear.fact_key, None)

    def note_all(self) -> None:
        """Notes what is not noted yet; for a clean stop."""
        for ear in list(self._unnoted):
            self.heard(ear, had_effect=True)
        self.raise_floor()

    def raise_floor(self) -> None:
        """Notes how far all have heard, when that is further than noted."""
        floor = self._lowest()
        if floor is None or floor <= self._floor:
            return
        self._floor = floor
        self._bytes_since = 0
        for key, noted in self._floors.items():
            if noted < floor:
                self._floors[key] = floor
                self._note(key, floor)
        self._rising.append((self._tree.changes.number, floor))

    def hold(self) -> None:
        """Holds the log from where a restart would go on, as long as anybody hears."""
        self._log.retain(None if self._lowest() is None else self._durable_floor + 1)

    def _note(self, key: str, value: int | list[int] | None) -> None:
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        # With an effect, that has its revision already; what is noted without one rests on nothing later.
        self._tree.note_fact(FactKind.LISTENER, key, text, self._tree.revision)
        self._commits.touch()


def _floor_key(kind: str, listener: Listener) -> str:
    return f"kind:{kind}/{listener.name}"

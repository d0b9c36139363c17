"""Audiences: the ears of each environment, and which of them have anything to hear."""

from collections.abc import Callable, Iterable, Mapping

from env_server.behaviours.behaviour import Listener
from env_server.events.routing import Routes
from env_server.model.limits import Limits
from env_server.pipeline.listeners.ears import Ear, Gap, Position, make_ear
from env_server.state_tree.nodes import Node


class Audience:
    """The ears of one environment: one of them hears at a time."""

    __slots__ = ("ears", "is_busy", "is_queued", "node", "retries")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ears: list[Ear] = []
        self.is_busy = False
        self.is_queued = False
        #: How often its next event was put off.
        self.retries = 0


class Audiences:
    """All ears of one world. `has_work` is told of an audience that has something to hear."""

    def __init__(
        self, listeners: Mapping[str, tuple[Listener, ...]], has_work: Callable[[Audience], None], limits: Limits
    ) -> None:
        self._listeners = listeners
        self._has_work = has_work
        self._limits = limits
        self._by_number: dict[int, Audience] = {}
        self._lagging: dict[Ear, None] = {}
        self._made = 0
        #: Finds the ears that a group may concern.
        self.routes: Routes[Ear] = Routes()

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, number: int) -> Audience | None:
        """The audience in the environment of that number."""
        return self._by_number.get(number)

    def ears(self) -> Iterable[Ear]:
        """All of them."""
        return (ear for audience in self._by_number.values() for ear in audience.ears)

    def make(self, node: Node, position_of: Callable[[Listener], Position]) -> list[Ear]:
        """The ears of an environment that has no audience yet."""
        listeners = self._listeners.get(node.declaration.kind, ())
        if not listeners:
            return []
        audience = self._by_number[node.number] = Audience(node)
        for listener in listeners:
            self._made += 1
            ear = make_ear(self._made, node, listener, position_of(listener), self._limits)
            audience.ears.append(ear)
            self.routes.add(ear)
        return audience.ears

    @property
    def any_lagging(self) -> bool:
        """Whether somebody has anything to hear."""
        return any(ear.is_lagging for ear in self._lagging)

    def lowest(self, routed: int) -> int:
        """Everything up to this revision was heard by all, when everything up to `routed` was routed."""
        return min((ear.heard[0] - 1 for ear in self._lagging), default=routed)

    def wake(self, ear: Ear) -> None:
        """It may have something to hear now."""
        if ear.is_lagging:
            self._lagging[ear] = None
            audience = self._by_number.get(ear.node.number)
            if audience is not None:
                self._has_work(audience)

    def settle(self, ear: Ear) -> None:
        """It has dealt with something: perhaps it has nothing left to hear."""
        if not ear.is_lagging:
            self._lagging.pop(ear, None)

    def lose(self, ear: Ear, last: int) -> None:
        """It will never hear what it has not heard up to revision `last`: the log no longer holds that."""
        message = f"events up to revision {last} are no longer retained: the listener has not heard them"
        ear.skip(Gap(ear.heard[0], last, "REVISION_COMPACTED", message))
        self.wake(ear)

    def drop(self, audience: Audience) -> None:
        """Its environment is gone."""
        self._by_number.pop(audience.node.number, None)
        for ear in audience.ears:
            self.routes.remove(ear)
            self._lagging.pop(ear, None)

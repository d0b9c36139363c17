"""Key queues: who holds which keys, and who waits behind them.

A key is (environment number, entry key); "" is the environment itself and None all of it. Only two kinds of ops ever
enter: behaviour operations, which hold their keys while they await, and the ops that arrive behind such a one. An op
that meets no queue is not entered at all: it takes effect in its loop step.

A ticket enters all its queues at once, so the queues agree on the order of any two tickets and no circle of waiting
can arise. It may start when nothing that conflicts with it came before it:

    queue of "a":  T1 T4      T1 starts; T4 waits for T1
    queue of "b":  T2 T4      T2 starts
    all of it:     T3         T3 waits for T1 and T2, T4 also for T3
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

Key = tuple[int, str | None]


class Ticket:
    """One op in its queues. Once started it holds its keys until it leaves; `start` is called if it had to wait."""

    __slots__ = ("client_id", "keys", "order", "start", "started")

    def __init__(self, keys: Iterable[Key], start: Callable[[], None], client_id: str = "") -> None:
        whole = {number for number, key in keys if key is None}
        self.keys: tuple[Key, ...] = tuple(
            dict.fromkeys((number, None) if number in whole else (number, key) for number, key in keys)
        )
        self.start = start
        #: Whose op it is; "" = nobody's who could ask again.
        self.client_id = client_id
        self.started = False
        self.order = 0


class _EnvironmentQueues:
    """The queues of one environment."""

    __slots__ = ("by_key", "single", "whole")

    def __init__(self) -> None:
        self.by_key: dict[str, deque[Ticket]] = {}
        #: Tickets on single keys, in order of arrival.
        self.single: dict[int, Ticket] = {}
        #: Tickets on the whole environment.
        self.whole: deque[Ticket] = deque()


@dataclass(frozen=True, slots=True)
class KeyQueueStatistics:
    """`holding` tickets have started, `waiting` ones not; `waiting_peak` since the start."""

    holding: int
    waiting: int
    waiting_peak: int


class KeyQueues:
    """All queues of one world. What may start after a wait is handed to `ready`, never called from within."""

    def __init__(self, ready: Callable[[Callable[[], None]], None]) -> None:
        self._ready = ready
        #: Environments in which something is held; the pipeline looks here first.
        self.environments: dict[int, _EnvironmentQueues] = {}
        self._orders = count(1)
        self._holding = 0
        self._waiting = 0
        self._waiting_peak = 0

    def blocked(self, keys: Iterable[Key]) -> bool:
        """Whether an op on `keys` has to wait for one that came before."""
        for number, key in keys:
            queues = self.environments.get(number)
            if queues is not None and (queues.whole or (queues.single if key is None else key in queues.by_key)):
                return True
        return False

    def enter(self, ticket: Ticket) -> bool:
        """Puts the ticket at the end of all its queues. True: it is first in each, has started, and the caller goes on
        with it; False: it waits.
        """
        ticket.order = next(self._orders)
        for number, key in ticket.keys:
            queues = self.environments.setdefault(number, _EnvironmentQueues())
            if key is None:
                queues.whole.append(ticket)
            else:
                queues.by_key.setdefault(key, deque()).append(ticket)
                queues.single[ticket.order] = ticket
        self._waiting += 1
        self._waiting_peak = max(self._waiting_peak, self._waiting)
        return self._try_start(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Takes the ticket out, started or not, and starts those that waited only for it."""
        behind: list[Ticket] = []
        for number, key in ticket.keys:
            queues = self.environments[number]
            if key is None:
                queues.whole.remove(ticket)
                behind.extend(line[0] for line in queues.by_key.values())
            else:
                line = queues.by_key[key]
                line.remove(ticket)
                if line:
                    behind.append(line[0])
                else:
                    del queues.by_key[key]
                queues.single.pop(ticket.order, None)
            if queues.whole:
                behind.append(queues.whole[0])
            elif not queues.by_key:
                del self.environments[number]
        if ticket.started:
            self._holding -= 1
        else:
            self._waiting -= 1
        for other in sorted(behind, key=lambda one: one.order):
            if self._try_start(other):
                self._ready(other.start)

    def try_withdraw(self, ticket: Ticket) -> bool:
        """Takes the ticket out unless it has started."""
        if ticket.started:
            return False
        self.leave(ticket)
        return True

    def of_client(self, client_id: str, number: int, key: str) -> bool:
        """Whether an op of this client holds the key or waits for it."""
        queues = self.environments.get(number)
        if queues is None:
            return False
        return any(ticket.client_id == client_id for ticket in (*queues.whole, *queues.by_key.get(key, ())))

    def statistics(self) -> KeyQueueStatistics:
        """How full the queues are."""
        return KeyQueueStatistics(self._holding, self._waiting, self._waiting_peak)

    @property
    def is_empty(self) -> bool:
        """Whether nothing holds a key or waits for one; calls of operations count from their start to their end."""
        return not (self._holding or self._waiting)

    @property
    def waiting(self) -> int:
        """Tickets that have not started."""
        return self._waiting

    def _try_start(self, ticket: Ticket) -> bool:
        if ticket.started or not all(self._first(ticket, number, key) for number, key in ticket.keys):
            return False
        ticket.started = True
        self._waiting -= 1
        self._holding += 1
        return True

    def _first(self, ticket: Ticket, number: int, key: str | None) -> bool:
        queues = self.environments[number]
        if key is None:
            return queues.whole[0] is ticket and all(order > ticket.order for order in _first_of(queues.single))
        return queues.by_key[key][0] is ticket and (not queues.whole or queues.whole[0].order > ticket.order)


def _first_of(orders: dict[int, Ticket]) -> list[int]:
    for order in orders:
        return [order]
    return []

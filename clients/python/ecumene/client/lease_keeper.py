"""Keeps the leases of a session alive, over its streams, at a third of their time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from env_api.v1 import session_pb2

from ecumene.client.errors import EcumeneError
from ecumene.client.reasons import LeaseExpiredError

KEEPS_A_TTL = 3


class Kept(Protocol):
    """A lease that wants to be kept."""

    id: int
    ttl_s: float

    def confirm(self, asked_at: float) -> None:
        """The server was asked then, and has given the full time."""

    def lose(self, error: EcumeneError) -> None:
        """It has ended."""


class LeaseKeeper:
    """Leases by id. `send` queues a message on the stream at hand."""

    def __init__(self, send: Callable[[session_pb2.SessionRequest], None]) -> None:
        self._send = send
        self._leases: dict[int, Kept] = {}
        self._due: dict[int, float] = {}
        self._asked: deque[float] = deque()
        """When the keep-alives that are not answered yet were sent; answers come in order."""
        self._is_attached = False
        self._failure: EcumeneError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: Kept) -> None:
        """Keep a lease that was just granted."""
        if self._failure is not None:
            lease.lose(self._failure)
            return
        self._leases[lease.id] = lease
        self._due[lease.id] = asyncio.get_running_loop().time() + lease.ttl_s / KEEPS_A_TTL
        self._set_timer()

    def discard(self, lease: Kept) -> None:
        """Keep it no longer."""
        self._leases.pop(lease.id, None)
        self._due.pop(lease.id, None)
        self._set_timer()

    def attach(self) -> None:
        """There is a new stream: time has passed, so ask at once."""
        self._is_attached = True
        now = asyncio.get_running_loop().time()
        self._due = dict.fromkeys(self._due, now)
        self._keep_due()

    def detach(self) -> None:
        """The stream is gone, with the answers that were to come on it."""
        self._is_attached = False
        self._asked.clear()
        self._set_timer()

    def take_kept(self, message: session_pb2.LeasesKept) -> None:
        """The server has kept those that live."""
        asked_at = self._asked.popleft() if self._asked else 0.0
        for lease_id in message.lease_ids:
            if lease_id in self._leases:
                self._leases[lease_id].confirm(asked_at)
        for lease_id in message.ended:
            lease = self._leases.get(lease_id)
            if lease is not None:
                self.discard(lease)
                lease.lose(LeaseExpiredError(f"lease {lease_id} has ended"))

    def fail(self, error: EcumeneError) -> None:
        """The session ended: nobody keeps them any longer."""
        self._failure = error
        leases = list(self._leases.values())
        self._leases.clear()
        self._due.clear()
        self._set_timer()
        for lease in leases:
            lease.lose(error)

    def _keep_due(self) -> None:
        now = asyncio.get_running_loop().time()
        due = [lease_id for lease_id, at in self._due.items() if at <= now]
        if due:
            self._asked.append(now)
            self._due.update((lease_id, now + self._leases[lease_id].ttl_s / KEEPS_A_TTL) for lease_id in due)
            keep_alive = session_pb2.LeaseKeepAlive(lease_ids=due)
            self._send(session_pb2.SessionRequest(keep_alive=keep_alive))
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due and self._is_attached:
            self._timer = asyncio.get_running_loop().call_at(min(self._due.values()), self._keep_due)

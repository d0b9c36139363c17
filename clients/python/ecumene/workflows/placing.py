"""Which host an actor is made on, and what becomes of it when that host is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ecumene.workflows.errors import Failure, HostLostError, NoHostError, WorkflowError
from ecumene.workflows.limits import RETRY_MAX, FlowLimits
from ecumene.workflows.messages import host_of
from ecumene.workflows.targets import HostInfo, Target

if TYPE_CHECKING:
    from ecumene.workflows.callers import Caller


class Placing:
    """The hosts that one caller knows. Changed in its loop; `choose` is for any thread."""

    def __init__(self, caller: Caller, limits: FlowLimits) -> None:
        self._caller = caller
        self._wait_s = limits.host_wait_s
        self.hosts: dict[str, HostInfo] = {}
        self._placed: Counter[str] = Counter()
        self._arrivals: list[asyncio.Future[None]] = []
        self._homeless: dict[Target, str] = {}
        """Actors to be made again as soon as there is a host, and the one that they lost."""

    def add_host(self, info: HostInfo) -> None:
        """A host has come."""
        self.hosts = {**self.hosts, info.name: info}
        self._placed[info.name] = 0
        for came in self._arrivals:
            if not came.done():
                came.set_result(None)
        homeless, self._homeless = self._homeless, {}
        for target, lost in homeless.items():
            self._make_again(target, lost)

    def remove_host(self, name: str, revision: int) -> None:
        """A host takes no more actors, unless it came back after that."""
        info = self.hosts.get(name)
        if info is not None and info.created_revision <= revision:
            self.hosts = {other: kept for other, kept in self.hosts.items() if other != name}

    def choose(self, wanted: str = "") -> str:
        """The place of the host for an actor: that with the fewest of this caller.

        Raises:
            NoHostError: there is none, or not that one.
        """
        hosts = self.hosts
        if wanted and wanted not in hosts:
            raise NoHostError(f"there is no host {wanted!r}; there are {', '.join(sorted(hosts)) or 'none'}")
        if not hosts:
            raise NoHostError("there is no host: start one with `ecumene runtime --server ... --workflow-module ...`")
        chosen = wanted or min(hosts, key=lambda name: (self._placed[name], name))
        self._placed[chosen] += 1
        return hosts[chosen].place

    async def wait_for_host(self, timeout_s: float) -> bool:
        """Wait until there is a host, at most so long; whether there is."""
        if not self.hosts:
            came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._arrivals.append(came)
            await asyncio.wait({came}, timeout=timeout_s)
            self._arrivals.remove(came)
        return bool(self.hosts)

    def is_homeless(self, target: Target) -> bool:
        """Whether an actor waits for a host."""
        return target in self._homeless

    def lose(self, target: Target, host: str) -> None:
        """An actor's host has ended. It is made again elsewhere if it may be, with the calls that may be repeated."""
        if target.host != host or target in self._homeless or target.failure is not None:
            return
        if target.maker is None:
            self._fail(target, f"host {host_of(host)} ended with actor {target.actor}")
        elif self.hosts:
            self._make_again(target, host)
        else:
            self._homeless[target] = host
            self._caller.loop.call_later(self._wait_s, self._give_up_waiting, target)

    def _make_again(self, target: Target, lost: str) -> None:
        if target.made >= RETRY_MAX:
            self._fail(target, f"host {host_of(lost)} ended with actor {target.actor}, made again {RETRY_MAX} times")
            return
        calls = self._caller.list_pending(target)
        target.host = self.choose()
        target.made += 1
        making = next((call for call in calls if call.is_making), None)
        if making is None:
            try:
                self._caller.make_again(target)
            except WorkflowError as error:  # the flow is full, or what it was made with has expired
                problem = f"host {host_of(lost)} ended with actor {target.actor}, and it cannot be made again: {error}"
                self._fail(target, problem)
                return
        else:
            making.resent += 1
            self._caller.send(making)
        for call in calls:
            if call is making or not call.sent_to:
                continue  # what was not sent yet follows by itself
            if call.attempts_left > 0:
                call.attempts_left -= 1
                call.resent += 1
                self._caller.send(call)
            else:
                self._caller.give_up(
                    call, Failure(HostLostError.code, f"host {host_of(lost)} ended with actor {target.actor}")
                )

    def _give_up_waiting(self, target: Target) -> None:
        lost = self._homeless.pop(target, None)
        if lost is not None:
            self._fail(
                target, f"host {host_of(lost)} ended with actor {target.actor}, and no other came in {self._wait_s} s"
            )

    def _fail(self, target: Target, text: str) -> None:
        target.failure = Failure(HostLostError.code, text)
        for call in self._caller.list_pending(target):
            if call.sent_to:
                self._caller.give_up(call, target.failure)

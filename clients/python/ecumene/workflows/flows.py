"""Flows: where a script's actors live and its calls go. Opened here, locally or in a world."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import random
import re
import threading
import uuid
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from ecumene.client import ClientSettings
from ecumene.client.sync.loop_thread import LoopThread, join_loop
from ecumene.workflows.call_table import FlowStatistics
from ecumene.workflows.callers import Caller
from ecumene.workflows.errors import Failure, FlowLostError, WorkflowError
from ecumene.workflows.limits import FlowLimits, StageLimits
from ecumene.workflows.local import LocalFlow
from ecumene.workflows.messages import HOSTS
from ecumene.workflows.proxies import Proxy
from ecumene.workflows.runs import running
from ecumene.workflows.world_flow import WorldFlow

logger = logging.getLogger("ecumene.workflows")

DEFAULT_SERVER = "127.0.0.1:7170"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
Made = TypeVar("Made")


class FlowBackend(Protocol):
    """What a flow stands on."""

    caller: Caller

    async def close(self) -> None:
        """End it."""


class Flow:
    """An open flow. Actors made while it is open live in it, and end with it."""

    def __init__(self, backend: FlowBackend, limits: FlowLimits) -> None:
        self._backend = backend
        self._limits = limits
        self.name: str = backend.caller.flow

    def __repr__(self) -> str:
        return f"<Flow {self.name}>"

    def spawn(
        self,
        cls: type,
        n: int = 1,
        /,
        *args: Any,
        host: str = "",
        retry: int = 0,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> list[Proxy]:
        """Proxies of `n` new actors of a class, all made with the same arguments, spread over the hosts.

        `host`, `retry`, `timeout_s`: see `Actor.to_dist`.

        Raises:
            NoHostError: there is none, or not that one.
            ValueRefusedError: the arguments cannot be sent.
        """
        make = self._backend.caller.make
        return [make(cls, args, kwargs, host=host, retry=retry, timeout_s=timeout_s) for _ in range(n)]

    def stop(self, proxy: Proxy) -> None:
        """Let an actor go when the calls that were sent so far are done; later ones get CallRefusedError."""
        self._backend.caller.stop(proxy)

    def hosts(self) -> list[str]:
        """Names of the hosts that take actors now."""
        return sorted(self._backend.caller.placing.hosts)

    def statistics(self) -> FlowStatistics:
        """How it is doing."""
        return self._backend.caller.statistics()

    async def aclose(self, *, abandon: bool = False) -> None:
        """Wait for calls under way, at most FlowLimits.close_timeout_s, then end the flow with its actors and results.

        With `abandon` it does not wait. In the loop that the flow was opened in.
        """
        _forget(self)
        caller = self._backend.caller
        if not abandon:
            left = await caller.wait_idle(self._limits.close_timeout_s)
            if left:
                logger.warning("flow %s ended with %d calls under way", self.name, left)
        caller.end(Failure(FlowLostError.code, "the flow was closed by this program"))
        await self._backend.close()


class Opening:
    """What `connect` and `local` return: `with` in blocking code, `async with` or `await` in a loop."""

    def __init__(self, open_flow: Callable[[], Awaitable[Flow]]) -> None:
        self._open = open_flow
        self._flow: Flow | None = None
        self._user = object()
        self._loop: LoopThread | None = None

    def __await__(self) -> Generator[Any, None, Flow]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Flow:
        self._flow = await self._open()
        _remember(self._flow)
        return self._flow

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._flow is not None:
            await self._flow.aclose(abandon=error is not None)

    def __enter__(self) -> Flow:
        self._loop = join_loop(self._user)
        try:
            flow: Flow = self._loop.call(self._open)
        except BaseException:
            self._loop.close_user(self._user)
            raise
        self._flow = flow
        _remember(flow)
        return flow

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._flow is not None and self._loop is not None:
            try:
                self._loop.call(self._flow.aclose, abandon=error is not None)
            finally:
                self._loop.close_user(self._user)


def local(*, name: str = "", limits: FlowLimits | None = None, stage_limits: StageLimits | None = None) -> Opening:
    """Open a flow in this process: no server, no host. Its results are those of the flow in a world."""

    async def open_local() -> Flow:
        flow_limits = limits or FlowLimits()
        backend = LocalFlow(_choose_name(name), flow_limits, stage_limits or StageLimits(), random.Random())
        return Flow(backend, flow_limits)

    return Opening(open_local)


def connect(
    address: str = "",
    world: str = "",
    *,
    name: str = "",
    limits: FlowLimits | None = None,
    settings: ClientSettings | None = None,
    timeout_s: float = 10.0,
) -> Opening:
    """Open a flow in a world, on the hosts that are there.

    `address`, `world`: "" = ECUMENE_SERVER and ECUMENE_WORLD, or 127.0.0.1:7170 and main. `name` (a-z, 0-9 and -, at
    most 24): by default one that is new.

    Raises (when opened):
        NoHostError: no host came within FlowLimits.host_wait_s.
        EnvironmentExistsError: a flow of that name is open.
        ConnectionFailedError: no server answered at the address within `timeout_s`.
    """

    async def open_in_world() -> Flow:
        flow_limits = limits or FlowLimits()
        server = address or os.environ.get("ECUMENE_SERVER") or DEFAULT_SERVER
        world_name = world or os.environ.get("ECUMENE_WORLD") or "main"
        backend = WorldFlow(_choose_name(name), flow_limits)
        await backend.open(server, world_name, settings or ClientSettings(), timeout_s)
        return Flow(backend, flow_limits)

    return Opening(open_in_world)


def spawn(cls: type, n: int = 1, /, *args: Any, **kwargs: Any) -> list[Proxy]:
    """`Flow.spawn` in the flow at hand: that of the method that runs, or the one that was opened last."""
    options = {name: kwargs.pop(name) for name in ("host", "retry", "timeout_s") if name in kwargs}
    make = find_maker().make
    return [make(cls, args, kwargs, **options) for _ in range(n)]


def find_maker() -> Caller:
    """Who makes actors here: the method's caller, the flow opened last, or one at ECUMENE_SERVER."""
    run = running.get()
    if run is not None:
        return run.caller
    with _opening:
        if not _open_flows:
            _open_default()
        return _open_flows[-1]._backend.caller


def _open_default() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        opening = connect()
        opening.__enter__()
        atexit.register(opening.__exit__, None, None, None)
        return
    raise WorkflowError("no flow is open: `async with workflows.connect(...)`, or workflows.local()")


def _choose_name(name: str) -> str:
    if name and (not _NAME.fullmatch(name) or name == HOSTS.rpartition("/")[2]):
        raise WorkflowError(f"{name!r} is no name for a flow: a-z, 0-9 and -, at most 24, and not 'hosts'")
    return name or f"wf-{uuid.uuid4().hex[:12]}"


def _remember(flow: Flow) -> None:
    _open_flows.append(flow)


def _forget(flow: Flow) -> None:
    if flow in _open_flows:
        _open_flows.remove(flow)


_opening = threading.Lock()
_open_flows: list[Flow] = []

"""Services that are started together and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ecumene.launch.errors import ServiceEndedError
from ecumene.launch.process import START_TIMEOUT_S, STOP_TIMEOUT_S, ServiceProcess, start_service


class Services:
    """Async context manager: what was started in it is stopped when it is left, last first."""

    def __init__(self, *, stop_timeout_s: float = STOP_TIMEOUT_S) -> None:
        self._stop_timeout_s = stop_timeout_s
        self._started: list[ServiceProcess] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(
        self,
        service: str,
        arguments: Sequence[str],
        *,
        log_path: Path | None = None,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        keep_open: Sequence[int] = (),
    ) -> ServiceProcess:
        """Start one more service; see `start_service`."""
        started = await start_service(
            service,
            arguments,
            log_path=log_path,
            environment=environment,
            start_timeout_s=start_timeout_s,
            keep_open=keep_open,
        )
        self._started.append(started)
        return started

    async def watch(self) -> None:
        """Wait until one of the services that run now ends by itself. Never returns.

        Raises ServiceEndedError.
        """
        waits = {
            asyncio.create_task(process.wait(), name=f"wait for {process.service}"): process
            for process in self._started
        }
        try:
            if not waits:
                await asyncio.get_running_loop().create_future()
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        ended = waits[next(iter(done))]
        raise ServiceEndedError(ended.service, next(iter(done)).result(), ended.last_error_line())

    async def stop(self) -> None:
        """Stop what was started, last first, each within the stop timeout. Idempotent.

        If the caller is cancelled, the rest is killed at once, so that nothing is left.
        """
        try:
            while self._started:
                await self._started[-1].stop(self._stop_timeout_s)
                self._started.pop()
        finally:
            while self._started:
                await self._started.pop().kill()

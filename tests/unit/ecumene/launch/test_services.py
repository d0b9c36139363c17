"""Several services: stopped last first, and a loss is noticed."""

from __future__ import annotations

import asyncio

import pytest
from ecumene.launch import ServiceEndedError, Services, ServiceStartError

pytestmark = pytest.mark.usefixtures("planted")


async def test_services_stop_last_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []
    async with Services() as services:
        for name in ("first", "second"):
            process = await services.start("planted", ["polite", name])

            async def stop(*_: object, process=process, real=process.stop) -> int:
                stopped.append(process.ready["arguments"][1])
                return await real()

            monkeypatch.setattr(process, "stop", stop)
    assert stopped == ["second", "first"]


async def test_a_failed_start_stops_those_before_it() -> None:
    with pytest.raises(ServiceStartError):
        async with Services() as services:
            first = await services.start("planted", ["polite"])
            await services.start("planted", ["fail"])
    assert first.exit_code == 0


async def test_a_cancelled_stop_still_leaves_nothing() -> None:
    services = Services(stop_timeout_s=60)
    started = [await services.start("planted", ["deaf"]) for _ in range(2)]
    stop = asyncio.create_task(services.stop(), name="stop")
    await asyncio.sleep(0)
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    assert all(process.exit_code == -9 for process in started)


async def test_the_watch_tells_which_service_ended_and_why() -> None:
    async with Services() as services:
        await services.start("planted", ["polite"])
        await services.start("planted", ["end"])
        with pytest.raises(ServiceEndedError, match="planted ended with exit code 3: the disk is full"):
            await services.watch()

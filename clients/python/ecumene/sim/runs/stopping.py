"""Ends what another process conducts, in order: by a file in its directory, which its conductor looks for.

No signal: a run may live in a notebook, whose process is not the run's alone, or on another host with the same disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ecumene.client.errors import EcumeneError
from ecumene.sim.runs.directory import LOCK_NAME

REQUEST_NAME = ".stop"
LOOKED_EVERY_S = 0.25
STOP_TIMEOUT_S = 120.0


class RunStoppedError(EcumeneError):
    """Somebody has asked for the end of a run or a sweep, and it was stopped in order; all of it is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(f"{directory}: stopped on request")


class StopTimeoutError(EcumeneError):
    """What was asked to end has not ended yet."""

    def __init__(self, directory: Path, timeout_s: float) -> None:
        self.directory = directory
        super().__init__(f"{directory}: was asked to end, and has not ended after {timeout_s:g} s")


@asynccontextmanager
async def heed_requests(directory: Path) -> AsyncIterator[None]:
    """Cancel what is in this block when its end is asked for. Whoever enters it holds the directory's lock.

    Raises RunStoppedError then, once the block has ended in order.
    """
    request = directory / REQUEST_NAME
    request.unlink(missing_ok=True)  # of an earlier life
    conductor = asyncio.current_task()
    assert conductor is not None
    is_asked = False

    async def look() -> None:
        nonlocal is_asked
        while not request.exists():  # noqa: ASYNC110 - another process makes it; a look takes microseconds
            await asyncio.sleep(LOOKED_EVERY_S)
        is_asked = True
        conductor.cancel()

    looking = asyncio.create_task(look(), name="look for requests to stop")
    try:
        yield
    except asyncio.CancelledError:
        # Who is cancelled from outside as well is cancelled.
        if is_asked and conductor.uncancel() == 0:
            raise RunStoppedError(directory) from None
        raise
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        request.unlink(missing_ok=True)


async def request_stop(directory: Path, *, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """End the run or the sweep of a directory in order, and wait until it has ended; whether there was anything to end.

    Asking again, or asking for the end of what has ended, changes nothing. Raises StopTimeoutError, OSError.
    """
    if not is_conducted(directory):
        return False
    request = directory / REQUEST_NAME
    try:
        async with asyncio.timeout(timeout_s):
            while is_conducted(directory):
                request.touch()  # again: who only begins removes what an earlier life left
                await asyncio.sleep(LOOKED_EVERY_S)
    except TimeoutError:
        raise StopTimeoutError(directory, timeout_s) from None
    finally:
        if not is_conducted(directory):
            request.unlink(missing_ok=True)
    return True


def is_conducted(directory: Path) -> bool:
    """Whether somebody conducts the run or the sweep of a directory, or its services still live."""
    with contextlib.suppress(FileNotFoundError), (directory / LOCK_NAME).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

"""The directory of a run: made once, and in the hands of one conductor at a time."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ecumene.client.errors import EcumeneError
from ecumene.client.records.manifest import MANIFEST_NAME
from ecumene.sim.specs.spec import RunSpec

LOCK_NAME = ".lock"
STAGING_NAME = ".staging"
LEFT_OVER_S = 30.0
"""How long services of a conductor that was killed may take to notice it and to end."""
ASKED_EVERY_S = 0.1


class RunActiveError(EcumeneError):
    """Somebody else conducts the run, or its services still live."""

    def __init__(self, directory: Path, who: str) -> None:
        self.directory = directory
        super().__init__(f"{directory}: the run is going on: {who}")


class RunLock:
    """Async context manager: the run of a directory is ours.

    The services of the run inherit the lock by `descriptor`, so that it is free only when all of them are gone too;
    with `waits_for_writers`, so are the workers of their runtimes. `on_wait` is told, once, that they are waited for.
    """

    def __init__(
        self,
        directory: Path,
        *,
        waits_for_writers: bool = True,
        left_over_s: float = LEFT_OVER_S,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._directory = directory
        self._waits_for_writers = waits_for_writers
        self._left_over_s = left_over_s
        self._on_wait = on_wait
        self._held = ExitStack()
        self.descriptor = -1

    async def __aenter__(self) -> Self:
        """Waits for services of a conductor that is gone. Raises RunActiveError, OSError."""
        path = self._directory / LOCK_NAME
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._held.callback(os.close, self.descriptor)
        try:
            loop = asyncio.get_running_loop()
            deadline_s = loop.time() + self._left_over_s
            is_told = False
            while not (self._try_lock() and self._are_writers_gone()):
                if (conductor := self._read_conductor()) is not None:
                    raise RunActiveError(self._directory, f"process {conductor} conducts it")
                if loop.time() > deadline_s:
                    raise RunActiveError(self._directory, "its services have not ended yet")
                if not is_told:
                    self._on_wait()
                is_told = True
                await asyncio.sleep(ASKED_EVERY_S)
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            self._held.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.ftruncate(self.descriptor, 0)
        self._held.close()

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _are_writers_gone(self) -> bool:
        """Whether no worker writes records any more; each holds its folder."""
        if not self._waits_for_writers:
            return True
        staging = self._directory / STAGING_NAME
        return all(map(_is_free, staging.iterdir() if staging.is_dir() else ()))

    def _read_conductor(self) -> int | None:
        """The process that conducts the run, if it lives and is not this one."""
        text = os.pread(self.descriptor, 32, 0).decode("ascii", "replace").strip()
        if not text.isdecimal() or int(text) == os.getpid():
            return None
        return int(text) if _is_alive(int(text)) else None


def make_directory(spec: RunSpec, started: datetime, name: str = "") -> tuple[str, Path]:
    """A new directory for a run, and the run's id: its name and the time, and a number where two meet.

    With a `name` that is both, once: one that was made and has no manifest yet, because its maker was killed, is taken.
    Raises FileExistsError, OSError.
    """
    if name:
        directory = spec.recording.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / MANIFEST_NAME).exists():
            raise FileExistsError(errno.EEXIST, "a run was begun here", str(directory))
        return name, directory
    stem = f"{spec.name}-{started:%y%m%d-%H%M%S}"
    for number in range(1, 1000):
        name = stem if number == 1 else f"{stem}-{number}"
        directory = spec.recording.directory / name
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return name, directory
    raise FileExistsError(f"{spec.recording.directory / stem}: a thousand runs began in one second")


def _is_free(folder: Path) -> bool:
    try:
        with _opened(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

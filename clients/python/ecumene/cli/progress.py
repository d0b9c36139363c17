"""How far something is: a bar with rate and time left on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

LINE_INTERVAL_S = 2.0
STANDSTILL_INTERVAL_S = 15.0


class ProgressDisplay(Protocol):
    """Shows a count on its way to a total, in parts that have names."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, done: int, part: str) -> None:
        """So much is done; `part` says what is being done."""

    def note(self, line: str) -> None:
        """A line that stays, above the bar."""


def show_progress(label: str, total: int, unit: str, *, stream: TextIO | None = None) -> ProgressDisplay:
    """A display for a stream, by default stderr; rich reads NO_COLOR and TERM."""
    stream = stream or sys.stderr
    if stream.isatty():
        return _Bar(label, total, unit, stream)
    return _Lines(label, total, unit, stream)


def describe_rate(rate: float, unit: str) -> str:
    """A rate in words; a slow one by the minute, so that it does not read as standstill."""
    return f"{rate * 60:,.0f} {unit}/min" if 0 < rate < 1 else f"{rate:,.0f} {unit}/s"


class _Rate(ProgressColumn):
    """What is done in a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The rate, once it is known."""
        speed = task.finished_speed or task.speed
        return Text(describe_rate(speed, self._unit) if speed else "", style="progress.data.speed")


class _Bar:
    """A bar of rich."""

    def __init__(self, label: str, total: int, unit: str, stream: TextIO) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(unit),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
        )
        self._label = label
        self._task = self._progress.add_task(label, total=total)
        self._has_begun = False

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, part: str) -> None:
        """Move the bar; what was done before the first time has no part in the rate."""
        if not self._has_begun:
            self._has_begun = True
            self._progress.reset(self._task, completed=done)
        self._progress.update(self._task, completed=done, description=f"{self._label} {part}".strip())

    def note(self, line: str) -> None:
        """Print above the bar."""
        self._progress.console.print(line, highlight=False, markup=False)


class _Lines:
    """A line now and then."""

    def __init__(
        self, label: str, total: int, unit: str, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = stream
        self._clock = clock
        self._began_at = self._shown_at = clock()
        self._began_done: int | None = None
        self._shown_done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, done: int, part: str) -> None:
        """A line, if the last one is some time ago; the more so if nothing has moved since.

        What was done before the first time, in an earlier life of a run, has no part in the rate.
        """
        now = self._clock()
        if self._began_done is None:
            self._began_at, self._began_done = now, done
        if now - self._shown_at < (LINE_INTERVAL_S if done != self._shown_done else STANDSTILL_INTERVAL_S):
            return
        self._shown_at, self._shown_done = now, done
        rate = (done - self._began_done) / max(now - self._began_at, 1e-9)
        left = f", {(self._total - done) / rate:,.0f} s left" if rate > 0 else ""
        self.note(f"{self._label} {part}: {done:,} of {self._total:,}, {describe_rate(rate, self._unit)}{left}")

    def note(self, line: str) -> None:
        """A line."""
        print(line, file=self._stream, flush=True)

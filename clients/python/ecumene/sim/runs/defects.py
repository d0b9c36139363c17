"""What went wrong in a behaviour of one's own, as the log of the run's server tells it.

To a client a server says no more of a defect than the id of an incident. Whose run has a server of its own wrote the
behaviour, too, and is told what happened, and where in his file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ecumene.client.errors import EcumeneError, InternalError

_RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.MULTILINE)
"""Begins each record of a service's log."""
_OPERATION = re.compile(r": operation (\S+)")
_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


class DefectError(EcumeneError):
    """An operation has a defect; the message says which, what it raised, and where."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log
        """Has the traceback."""

    @property
    def hint(self) -> str:
        """What to do, for a terminal."""
        return f"mend that first; its traceback is in {self.log}"


@contextlib.contextmanager
def tell_defects(log: Path, behaviours: Sequence[str]) -> Iterator[None]:
    """Raise DefectError in place of an InternalError whose incident is in `log`, that of the server.

    `behaviours`: `module:Class` each; a place in one of these modules is told rather than one below it.
    """
    try:
        yield
    except InternalError as error:
        text = log.read_text(errors="replace") if log.exists() else ""
        told = describe_incident(text, error.incident, [name.partition(":")[0] for name in behaviours])
        if not told:
            raise
        raise DefectError(told, log) from error


def describe_incident(log: str, incident: str, modules: Sequence[str]) -> str:
    """A defect, `operation NAME: ERROR: TEXT (FILE, line N, in FUNCTION)`; "" if the log has no such one."""
    begin = log.find(f"incident {incident}") if incident else -1
    if begin < 0:
        return ""
    end = _RECORD.search(log, begin)
    record = log[begin : end.start() if end else None].rstrip()
    operation = _OPERATION.search(record.partition("\n")[0])
    frames = list(_FRAME.finditer(record))
    if operation is None or not frames:
        return ""
    # Notes and the rest of a text of several lines stay in the log.
    raised = [line for line in record[frames[-1].end() :].splitlines() if line and not line.startswith(" ")]
    files = tuple(f"/{module.replace('.', '/')}{end}" for module in modules for end in (".py", "/__init__.py"))
    own = [frame for frame in frames if frame["file"].endswith(files)]
    place = (own or frames)[-1]
    where = f"{Path(place['file']).name}, line {place['line']}, in {place['function']}"
    return f"operation {operation[1]}: {raised[0] if raised else 'failed'} ({where})"

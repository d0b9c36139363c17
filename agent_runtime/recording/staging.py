"""The folder where one source builds its parts, held by one writer at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ecumene.client.records import Table, list_parts, name_part

from agent_runtime.recording.errors import SourceInUseError

STAGING_NAME = ".staging"


class Staging:
    """A locked folder for half-written parts, and the numbers of the parts to come.

    Numbers go on where an earlier writer of the same source ended, whether it closed or was killed.
    """

    def __init__(self, directory: Path, source: str, tables: tuple[Table, ...]) -> None:
        """Make the folders, lock, and clear what a killed writer left half written.

        Raises PartNameError for a source that is no file name, SourceInUseError if a living writer
        (of this machine) holds it, OSError.
        """
        name_part(source, 1)
        self._directory = directory
        self._source = source
        self.folder = directory / STAGING_NAME / source
        for folder in (self.folder, *(directory / table.name for table in tables)):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise SourceInUseError(directory, source) from error
        for left_over in self.folder.iterdir():
            left_over.unlink()
        numbers = {table.name: list_parts(directory, table, source).values() for table in tables}
        self._last = {name: max(found, default=0) for name, found in numbers.items()}

    def next_path(self, table: Table) -> Path:
        """Where the next part of a table goes. Raises PartNameError after 999,999 parts."""
        number = self._last[table.name] + 1
        path = self._directory / table.name / name_part(self._source, number)
        self._last[table.name] = number
        return path

    def close(self) -> None:
        """Remove the folder and let go of the lock."""
        for left_over in self.folder.iterdir():
            left_over.unlink()
        self.folder.rmdir()
        os.close(self._lock)

"""Worlds on the disk that are not open.

A world is closed while the server runs only when nothing in it goes on by itself. It then leaves a note of how it
stood beside its data, so that a start need not open it, and that it can be listed. The note goes before anything is
written to the world again: a world without one may hold a lease, a deadline, a listener that is behind, and is opened
at the start.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from env_server.model.ports import Origin
from env_server.pipeline import WorldDescription
from env_server.storage.copies import sync_directory
from env_server.storage.layout import DATA_FILE
from env_server.storage.read_only import look_into

NOTE_FILE: Final = "closed.json"
_DRAFT_FILE: Final = "closed.json.draft"

_log = logging.getLogger(__name__)


class ClosedWorlds:
    """How each stood when it was closed, by name. What touches the disk blocks, for milliseconds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, WorldDescription] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, name: str) -> WorldDescription:
        return self._known[name]

    def list(self) -> list[WorldDescription]:
        """All, in no order."""
        return list(self._known.values())

    def add(self, described: WorldDescription) -> None:
        """The world is about to be closed, or is not open yet."""
        self._known[described.name] = described._replace(is_open=False, storage_low=False)

    def discard(self, name: str) -> None:
        """It is open, or gone."""
        self._known.pop(name, None)

    def find_note(self, name: str) -> bool:
        """Adds the world if it left a note; whether it did."""
        try:
            noted = json.loads((self._directory / name / NOTE_FILE).read_bytes())
            origin = noted.pop("restored_from")
            described = WorldDescription(**noted, restored_from=origin and Origin(**origin))
        except FileNotFoundError:
            return False
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            _log.warning("the note of the closed world %s cannot be read: the world is opened", name)
            return False
        self.add(described._replace(name=name))
        return True

    def look_at(self, name: str, storage_bytes_max: int) -> None:
        """Adds a world that left no note, as far as its head tells.

        Raises:
            StorageError: it is damaged, in use, or of another format.
        """
        directory = self._directory / name
        head = look_into(directory).head
        size_bytes = (directory / DATA_FILE).stat().st_blocks * 512
        self.add(
            WorldDescription(
                *(name, head.history, head.revision, head.first_revision, 0, 0, size_bytes, storage_bytes_max),
                restored_from=head.restored_from,
            )
        )

    def leave_note(self, name: str) -> None:
        """Once the world is closed: the next start need not open it. Durable on return; no effect on a full disk."""
        document: dict[str, Any] = self._known[name]._asdict()
        origin = document["restored_from"]
        document["restored_from"] = origin and origin._asdict()
        directory = self._directory / name
        draft = directory / _DRAFT_FILE
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(directory / NOTE_FILE)
            sync_directory(directory)
        except OSError as error:
            _log.warning("the closed world %s is opened at the next start: no note of it (%s)", name, error.strerror)

    def remove_note(self, name: str) -> None:
        """Before anything is written to the world; durable on return."""
        directory = self._directory / name
        try:
            (directory / NOTE_FILE).unlink()
        except FileNotFoundError:
            return
        sync_directory(directory)

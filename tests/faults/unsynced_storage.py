"""A planted bug for a real server: whoever loads this behaviour has a storage that does not wait for the disk."""

from __future__ import annotations

from typing import Any, ClassVar

import lmdb

from env_server.behaviours.behaviour import Behaviour

_open = lmdb.open


def open_unsynced(*arguments: Any, **options: Any) -> Any:
    """As lmdb.open, whatever was asked about syncing."""
    return _open(*arguments, **{**options, "sync": False, "metasync": False})


lmdb.open = open_unsynced


class Plant(Behaviour):
    """Does nothing more."""

    kind: ClassVar[str] = "unsynced"

"""`ecumene offline upgrade`: brings worlds of earlier storage formats to the present one, each whole or not at all."""

import os
from pathlib import Path

from env_server.offline.directories import is_snapshot_directory
from env_server.storage.errors import StorageError
from env_server.storage.formats import upgrade_database
from env_server.storage.lmdb_tables import own


def upgrade(directory: Path) -> int:
    """Upgrades the world in `directory`, in one transaction; returns the format that it had.

    Raises:
        StorageInUse: a server has it open.
        StorageFormat: it is of a newer format.
        StorageError: it is a snapshot, which stays as it is, or it cannot be read or written.
    """
    if is_snapshot_directory(directory):
        advice = "restore it: the world that is made of it is brought to the present format"
        raise StorageError(str(directory), "is a snapshot, which never changes", advice)
    owner = own(directory)
    try:
        return upgrade_database(directory)
    finally:
        os.close(owner)

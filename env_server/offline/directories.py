"""Which directories a command means: that of a world, that of a snapshot, or all worlds of a data directory."""

from pathlib import Path

from env_server.model.names import is_snapshot
from env_server.storage import layout
from env_server.storage.errors import StorageError
from env_server.storage.snapshots import MANIFEST_FILE


def find_worlds(directory: Path) -> list[Path]:
    """The directory itself if it holds a world or snapshot, else those below it that do, by name.

    Raises:
        StorageError: there is none.
    """
    if (directory / layout.DATA_FILE).exists():
        return [directory]
    found = (
        sorted(path for path in directory.iterdir() if is_snapshot(path.name) and (path / layout.DATA_FILE).exists())
        if directory.is_dir()
        else []
    )
    if not found:
        raise StorageError(str(directory), "holds no world", "give a world's directory, or a server's --data-dir")
    return found


def find_world(directory: Path) -> Path:
    """The directory, if it holds a world or snapshot itself.

    Raises:
        StorageError: it does not; names one below it that does.
    """
    found = find_worlds(directory)
    if found != [directory]:
        raise StorageError(str(directory), "is not a world's directory", f"give one of a world, such as {found[0]}")
    return directory


def is_snapshot_directory(directory: Path) -> bool:
    """Whether it is that of a snapshot, which no server ever opens and which never changes."""
    return (directory / MANIFEST_FILE).exists()

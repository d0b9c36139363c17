"""Where a run lives while it goes, for whoever wants to look at its world meanwhile: a file in its directory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from ecumene.client.errors import EcumeneError
from ecumene.client.records.whole_files import write_whole

ADDRESS_NAME = "server.json"


class RunNotLiveError(EcumeneError):
    """A run that is not under way."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(f"{directory}: no run is under way here")


@contextlib.contextmanager
def tell_address(directory: Path, address: str, world: str) -> Iterator[None]:
    """Say in a run's directory where its world is, as long as the block lasts. Raises OSError."""
    path = directory / ADDRESS_NAME
    write_whole(path, json.dumps({"address": address, "world": world}) + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_live_world(directory: Path | str) -> tuple[str, str]:
    """The address and the name of the world of a run that is under way, as `ecumene.sync.connect` takes them.

    After a kill it is where the run was: nobody answers there. Raises RunNotLiveError: it has ended, or has not begun.
    """
    try:
        told = json.loads((Path(directory) / ADDRESS_NAME).read_text(encoding="utf-8"))
        return str(told["address"]), str(told["world"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunNotLiveError(Path(directory)) from error

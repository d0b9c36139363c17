"""A real server for the nodes that are tested here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Address of a server."""
    with ServerProcess(tmp_path / "data") as running:
        yield running.address

"""A real server for the nodes that are tested here; each test has a world of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.services import ServerProcess
from tests.unit.agent_runtime.nodes import Place, make_world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("nodes") / "data") as running:
        yield running


@pytest.fixture
def home(server: ServerProcess) -> Place:
    """An empty world."""
    return make_world(server.address, f"world-{uuid.uuid4().hex}")

"""The models of `examples/models`, by the names under which workers find them, and a stage for each file of tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.services import ROOT

sys.path.append(str(ROOT / "examples" / "models"))

from stage import Stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A server and one runtime with the agents of the file's MODELS: started once, for all of its tests and seeds."""
    async with Stage(request.module.MODELS) as opened:
        yield opened


@pytest.fixture
def first_seed(seed: int) -> int:
    """From which on a test takes its seeds, one after the other; new ones in each test and each session."""
    return seed

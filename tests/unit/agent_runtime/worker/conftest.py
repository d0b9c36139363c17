"""What the tests of a worker share."""

from __future__ import annotations

import pytest

from tests.unit.agent_runtime.players import Daily, Sleeper


@pytest.fixture(autouse=True)
def nobody_woken() -> None:
    Sleeper.woken.clear()
    Daily.asked.clear()

"""Desks, whose operations do whatever a test asks of them."""

from __future__ import annotations

import pytest

from env_server.model.limits import Limits
from tests.engine import Stand, new_environment
from tests.unit.env_server.pipeline.operations.desk import Desk, Running


@pytest.fixture
def stand() -> Stand:
    """Two desks and a place without a behaviour; an operation has 30 s of the stand's clock."""
    stand = Stand(Desk(), limits=Limits(operation_timeout_s=30.0))
    stand.done(new_environment("/d", kind="desk"), new_environment("/e", kind="desk"), new_environment("/t"))
    Desk.running = Running()
    return stand

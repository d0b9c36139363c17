"""What the settings of a server come to."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from env_server.model.limits import MIB, Limits
from env_server.server import _limits
from env_server.settings import ServerSettings


def test_every_bound_that_can_be_set_reaches_the_worlds() -> None:
    settings = ServerSettings(
        concurrency_max=3,
        queue_ops_max=4,
        heartbeat_ms=700,
        map_mib=64,
        log_mib=20,
        log_age_s=90,
        streams_max=6,
    )
    assert _limits(settings) == Limits(
        concurrency_max=3,
        queue_ops_max=4,
        heartbeat_ms=700,
        map_bytes=64 * MIB,
        log_bytes_max=20 * MIB,
        log_age_s=90,
        streams_max=6,
    )


def test_without_settings_the_bounds_are_the_ones_of_the_model() -> None:
    assert _limits(ServerSettings()) == Limits()


@pytest.mark.parametrize("bad", [{"log_age_s": 0}, {"log_age_s": -1}, {"streams_max": 0}])
def test_a_bound_of_nothing_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        ServerSettings(**bad)  # type: ignore[arg-type]

"""What a command that meets a world tells when something is missing: what it is, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene import ClockNotFoundError, ClockPausedError, EcumeneError, SpaceNotFoundError, World, WorldNotFoundError
from ecumene.cli import connecting
from ecumene.cli.failures import CliError, UsageError
from ecumene.client.errors import ErrorDetails

from tests.services import ServerProcess


@pytest.mark.parametrize("error", [ClockNotFoundError, SpaceNotFoundError, ClockPausedError, WorldNotFoundError])
def test_what_is_missing_is_told_with_what_to_do(tmp_path: Path, error: type[EcumeneError]) -> None:
    failure = error(ErrorDetails(message="no such thing", metadata={"path": "/town"}))

    async def fail(world: World) -> None:
        raise failure

    with ServerProcess(tmp_path / "data") as server, pytest.raises(CliError) as caught:
        connecting.run_in_world(server.address, "main", fail)
    assert str(caught.value) == str(failure)
    assert caught.value.hint


def test_an_address_without_a_port_is_told_how_to_be_written() -> None:
    with pytest.raises(UsageError) as caught:
        connecting.check_address("nonsense")
    assert "nonsense:7170" in caught.value.hint

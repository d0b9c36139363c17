"""However a run ends, its manifest says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ecumene.client import UnavailableError
from ecumene.client.records import RunState, read_manifest
from ecumene.sim import run_life
from ecumene.sim.run_demo import make_demo_spec

ENDS: list[tuple[BaseException, RunState, str]] = [
    (KeyError("a defect"), RunState.FAILED, "KeyError: 'a defect'"),
    (RecursionError(), RunState.FAILED, "RecursionError: "),
    (OSError(28, "No space left on device"), RunState.FAILED, "[Errno 28] No space left on device"),
    (UnavailableError(), RunState.FAILED, str(UnavailableError())),
    (asyncio.CancelledError(), RunState.INTERRUPTED, "interrupted"),
]


@pytest.mark.parametrize(("ends", "state", "note"), ENDS)
async def test_the_manifest_says_how_a_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, state: RunState, note: str
) -> None:
    async def fail(*_: Any) -> None:
        raise ends

    monkeypatch.setattr(run_life.Stage, "play", fail)
    spec = make_demo_spec(agents=4, rounds=1, seed=1, directory=tmp_path)
    with pytest.raises(type(ends)):
        await run_life.run(spec, observer=Mock())
    (directory,) = tmp_path.iterdir()  # noqa: ASYNC240 - a test
    manifest = read_manifest(directory)
    assert (manifest.state, manifest.note) == (state, note)

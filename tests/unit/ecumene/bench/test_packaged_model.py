"""The packaged model is served with a key of its own; where it is not installed, that is said and nothing more."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ecumene.bench import packaged_model
from ecumene.bench.llm_bench import SERVER_QUICK, measure_packaged
from ecumene.bench.packaged_model import SERVER_MODULE, ModelAbsentError, serve_packaged_model

from agent_runtime.llm.providers.local_server import LocalServerSettings


class FakeServer:
    """A child that says one thing."""

    pid = 7

    def __init__(self, says: Mapping[str, Any]) -> None:
        self.says = says
        self.told: list[Mapping[str, Any]] = []

    def tell(self, document: Mapping[str, Any]) -> None:
        self.told.append(document)

    async def read(self, timeout_s: float) -> Mapping[str, Any]:
        return self.says


def put_in_place(monkeypatch: pytest.MonkeyPatch, server: FakeServer) -> None:
    @asynccontextmanager
    async def run(module: str, arguments: list[str]) -> AsyncIterator[FakeServer]:
        assert (module, arguments) == (SERVER_MODULE, [])
        yield server

    monkeypatch.setattr(packaged_model, "run_child", run)


def read_secret(path: Path) -> str:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "nobody else may read it"
    return path.read_text(encoding="utf-8")


async def test_it_is_asked_at_its_address_with_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = FakeServer({"address": "http://127.0.0.1:1"})
    put_in_place(monkeypatch, server)
    async with serve_packaged_model(tmp_path, 9, 3) as (asked, pid):
        assert (asked.base_url, asked.tokens_max, asked.at_a_time, pid) == ("http://127.0.0.1:1/v1", 9, 3, 7)
    settings = LocalServerSettings(**server.told[0])
    assert read_secret(Path(asked.api_key_file)) == settings.api_key != ""


async def test_an_absent_model_leaves_its_figures_out_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_in_place(monkeypatch, FakeServer({"error": "missing xllamacpp; `make demo-llm` installs it"}))
    with pytest.raises(ModelAbsentError, match="xllamacpp"):
        async with serve_packaged_model(tmp_path, 9):
            pass
    notes: list[str] = []
    assert await measure_packaged(SERVER_QUICK, notes.append) == []
    assert notes == ["server_ratio is left out: missing xllamacpp; `make demo-llm` installs it"]

"""What launches over the wire may use of a node: the keys and the folder that its operator names, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from agent_runtime.model.errors import LaunchError
from agent_runtime.node.rights import confine
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import Launch, parse_launch
from tests.unit.agent_runtime.nodes import NOWHERE, Place, describe_run, make_settings, name_agents, open_served

URL = "http://h/v1"


def make(folder: Path, model: dict[str, Any] | None = None, **launch: Any) -> Launch:
    models = {"m": {"provider": "openai", **model}} if model is not None else {}
    document = {**describe_run(agents=str(folder / "agents.arrow")), "models": models, **launch}
    return parse_launch(document)


def allow(folder: Path, *secrets: str, records: Path | None = None) -> NodeSettings:
    return make_settings(NOWHERE, folder, secrets=frozenset(secrets), records=records)


@pytest.mark.parametrize(
    "model",
    [
        {"base_url": URL, "api_key_env": "AWS_SECRET_ACCESS_KEY"},
        {"base_url": URL, "api_key_file": "/home/u/.netrc"},
        {"base_url": URL, "api_key_file": "KEY"},
        {"endpoints": [{"base_url": URL}, {"base_url": URL, "api_key_env": "OTHER"}]},
        {"endpoints": [{"base_url": URL, "api_key_file": "/keys/../etc/shadow"}]},
    ],
)
def test_a_key_that_the_operator_does_not_name_is_refused(tmp_path: Path, model: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match=r"^models\.m\..*--secret"):
        confine(make(tmp_path, model), allow(tmp_path, "HOSTED", "/keys/hosted"))


def test_a_key_that_he_names_is_as_it_was(tmp_path: Path) -> None:
    endpoints = [{"base_url": URL, "api_key_file": "/keys/hosted"}, {"base_url": URL, "api_key_env": "HOSTED"}]
    launch = make(tmp_path, {"endpoints": endpoints})
    assert confine(launch, allow(tmp_path, "HOSTED", "/keys/hosted")) == launch


@pytest.mark.parametrize("kind", ["recording", "cache", "replay_from"])
@pytest.mark.parametrize("path", ["{records}/../x", "/etc/x", "../x", "link/x", "{records}x", ".."])
def test_files_lie_below_the_folder_that_he_names(tmp_path: Path, kind: str, path: str) -> None:
    records = tmp_path / "records"
    records.mkdir()
    (records / "link").symlink_to(tmp_path)
    named = path.format(records=records)
    launch = make(tmp_path, recording=named) if kind == "recording" else make(tmp_path, {"base_url": URL, kind: named})
    for folder in (records, None):
        with pytest.raises(LaunchError, match="--records"):
            confine(launch, allow(tmp_path, records=folder))


def test_relative_paths_count_from_it(tmp_path: Path) -> None:
    records = tmp_path / "records"
    launch = make(tmp_path, {"base_url": URL, "cache": "a/b", "replay_from": str(records / "old")}, recording="r")
    confined = confine(launch, allow(tmp_path, records=records))
    assert confined.recording == records / "r"
    assert (confined.models["m"].cache, confined.models["m"].replay_from) == (records / "a/b", records / "old")


@pytest.mark.parametrize(
    "url", ["http://user:pass@h/v1", "https://token@h", "user:pass@h/v1", "http://a@b@h?x=/", "//u:p@h/v1"]
)
def test_an_address_with_credentials_is_no_setting(tmp_path: Path, url: str) -> None:
    for model in ({"base_url": url}, {"endpoints": [{"base_url": url}]}):
        with pytest.raises(LaunchError, match="holds credentials") as refused:
            make(tmp_path, model)
        assert "pass" not in str(refused.value)
    assert make(tmp_path, {"base_url": "http://h/v1/models@2"}).models["m"].base_url


async def test_a_launch_that_wants_more_is_refused_and_another_node_with_the_right_takes_it_over(
    tmp_path: Path, home: Place
) -> None:
    document = {**describe_run(), "models": {"m": {"provider": "openai", "base_url": URL, "api_key_env": "HOSTED"}}}
    async with open_served(make_settings(home, tmp_path)) as poor:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await poor.launch(document, {"g": name_agents(4)})
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "models.m.api_key_env" in str(refused.value.details())
        assert not (tmp_path / "a" / "r").exists()
        rich = make_settings(home, tmp_path, "b", secrets=frozenset({"HOSTED"}))
        async with open_served(rich) as served:
            await served.launch(document, {"g": name_agents(4)})
            assert not poor.node.fits(served.node.runs["r"].description, served.node.runs["r"].description.parts[0], [])

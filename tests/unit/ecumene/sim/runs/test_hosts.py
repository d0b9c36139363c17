"""What a node of a run's own may use."""

from pathlib import Path

from ecumene.sim.runs.hosts import list_secrets
from ecumene.sim.specs.models import EndpointSpec, ModelSpec


def test_the_keys_of_all_models_and_endpoints_are_allowed(tmp_path: Path) -> None:
    endpoints = (EndpointSpec(url="http://a/v1", api_key_file=tmp_path / "key"), EndpointSpec(url="http://b/v1"))
    models = [
        ModelSpec(),
        ModelSpec(provider="openai", endpoint="http://c/v1", api_key_variable="KEY"),
        ModelSpec(provider="openai", endpoints=endpoints, api_key_variable="KEY"),
    ]
    assert list_secrets(models) == sorted(["KEY", str(tmp_path / "key")])

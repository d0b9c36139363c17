"""Services are found by entry point and run with the arguments they were given."""

from __future__ import annotations

import importlib.metadata
import sys
import types

import pytest
from ecumene.cli import app, services
from ecumene.cli.failures import CliError


def plant(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Make every service's entry point lead to a target."""

    def entry_points(*, group: str, name: str) -> list[importlib.metadata.EntryPoint]:
        assert group == services.SERVICE_GROUP
        return [importlib.metadata.EntryPoint(name=name, group=group, value=target)]

    monkeypatch.setattr(services.importlib.metadata, "entry_points", entry_points)


@pytest.mark.parametrize(("command", "outcome", "code"), [("serve", None, 0), ("runtime", 74, 74), ("offline", 1, 1)])
def test_a_service_gets_its_arguments_untouched(
    monkeypatch: pytest.MonkeyPatch, command: str, outcome: int | None, code: int
) -> None:
    given: list[str] = []
    module = types.ModuleType("planted_service")

    def main(arguments: list[str]) -> int | None:
        given.extend(arguments)
        return outcome

    module.main = main  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted_service", module)
    plant(monkeypatch, "planted_service:main")
    assert app.main([command, "--port", "0", "--help"]) == code
    assert given == ["--port", "0", "--help"]


def test_a_service_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "surely_not_installed:main")
    with pytest.raises(CliError, match="serve is not part of this version"):
        services.serve([])


def test_all_services_are_registered() -> None:
    names = {point.name for point in importlib.metadata.entry_points(group=services.SERVICE_GROUP)}
    assert names == {"env-server", "offline", "runtime"}

"""A behaviour of one's own: made, tested, installed, served, invoked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ecumene import sync
from ecumene.cli.app import main

from tests.services import ServerProcess

NAME = "my_lamp"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A new package, as the command leaves it."""
    target = tmp_path / "lamp"
    assert main(["new", "behaviour", NAME, "--dir", str(target)]) == 0
    return target


def run(command: list[str], directory: Path, *, path: Path | None = None) -> str:
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(made: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert "2 passed" in run(command, made, path=made)


def test_it_reads_as_written_by_hand(made: Path) -> None:
    files = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert files == {
        "pyproject.toml",
        "README.md",
        f"{NAME}/__init__.py",
        f"{NAME}/behaviour.py",
        "tests/test_behaviour.py",
    }
    assert not [path for path in made.rglob("*") if path.is_file() and "$" in path.read_text()]
    assert "class MyLamp(Behaviour):" in (made / NAME / "behaviour.py").read_text()
    run([sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", "."], made)


@pytest.mark.parametrize(("name", "code"), [("Lamp", 2), ("class", 2), ("market", 1), ("json", 1)])
def test_a_name_that_cannot_work_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, code: int
) -> None:
    assert main(["new", "behaviour", name, "--dir", str(tmp_path / "made")]) == code
    assert not (tmp_path / "made").exists()
    assert name in capsys.readouterr().err


def test_a_server_serves_it(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(made))
    with ServerProcess(tmp_path / "data", "--behaviour", f"{NAME}.behaviour:MyLamp") as server:
        use(server)


def test_installed_it_is_found_by_its_entry_point(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run([*pip, "--target", str(site), "."], made)
    monkeypatch.setenv("PYTHONPATH", str(site))
    with ServerProcess(tmp_path / "data") as server:
        use(server)


def use(server: ServerProcess) -> None:
    with sync.connect(server.address) as world:
        kind = world.describe_kind(NAME)
        assert [one.name for one in kind.operations] == ["add"]
        assert [one.name for one in kind.listeners] == ["remember"]
        lamp = world.environment("/lamp")
        lamp.register(kind=NAME)
        with lamp.watch(types=[sync.EventType.ENTRY_APPENDED]) as watch:
            assert lamp.invoke("add", amount=2) == 2
            assert next(watch).value == 2
        with pytest.raises(sync.OperationRefusedError):
            lamp.invoke("add", amount=1000)
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["Lamp", "1lamp", "la-mp", "class", "", "x" * 41, "../lamp"])
def test_a_bad_name_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "behaviour", name, "--dir", str(tmp_path / "x")]) == 2
    assert not (tmp_path / "x").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_there_is_never_overwritten(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_text() for path in made.rglob("*") if path.is_file()}
    assert main(["new", "behaviour", "other", "--dir", str(made)]) == 1
    assert "not empty" in capsys.readouterr().err
    assert {path: path.read_text() for path in made.rglob("*") if path.is_file()} == before

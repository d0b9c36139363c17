"""The wheel holds every package and works without the checkout.

An editable install has the root on its path and hides a package that the wheel forgot.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLDEST_PROTOBUF = "5.29.6"
IMPORT_ALL_GENERATED = """
import importlib, pkgutil, agent_api.v1, env_api.v1, env_storage.v1, google.protobuf
for package in (agent_api.v1, env_api.v1, env_storage.v1):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(google.protobuf.__version__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(target.glob("*.whl"))


def test_the_wheel_holds_every_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert find_missing(held) == []
    assert not [name for name in held if name.startswith(("tests/", "clients/", "protos/"))]


def test_the_wheel_holds_the_templates(wheel: Path) -> None:
    folder = ROOT / "clients/python/ecumene/cli/templates"
    templates = {f"ecumene/cli/templates/{path.relative_to(folder)}" for path in folder.rglob("*.tmpl")}
    assert len(templates) >= 5
    with zipfile.ZipFile(wheel) as archive:
        assert templates <= set(archive.namelist())


def test_the_wheel_holds_the_populations_that_come_with_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("ecumene/sim/populations/templates/")}
    assert len(held) == 5


def test_a_forgotten_package_is_found() -> None:
    assert "env_server/__init__.py" in find_missing({"ecumene/__init__.py"})


def test_packages_import_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    names = ", ".join(Path(package).name for package in list_packages())
    code = f"import {names}\nfor package in ({names}): print(package.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == len(list_packages())
    assert all(line.startswith(str(tmp_path)) for line in result.stdout.splitlines())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_generated_code_loads_on_the_oldest_protobuf(
    wheel: Path, tmp_path: Path, missing_toolchain: Callable[[str], NoReturn]
) -> None:
    venv.create(tmp_path / "old", with_pip=True)
    python = str(tmp_path / "old/bin/python")
    wanted = [f"ecumene[server] @ {wheel.as_uri()}", f"protobuf=={OLDEST_PROTOBUF}"]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    if subprocess.run(install, timeout=500).returncode:
        missing_toolchain(f"protobuf {OLDEST_PROTOBUF} cannot be installed here")
    loaded = subprocess.run([python, "-c", IMPORT_ALL_GENERATED], capture_output=True, text=True, timeout=60)
    assert loaded.stdout.strip() == OLDEST_PROTOBUF, loaded.stderr
    helped = subprocess.run([python, "-m", "ecumene.cli", "demo"], capture_output=True, text=True, timeout=60)
    assert helped.returncode == 1
    assert len(helped.stderr.splitlines()) == 1, helped.stderr


def find_missing(held: set[str]) -> list[str]:
    """Source files of the listed packages that a wheel does not hold."""
    missing = []
    for package in map(Path, list_packages()):
        folder = ROOT / package
        names = (path.relative_to(folder.parent).as_posix() for path in sorted(folder.rglob("*.py")))
        missing += [name for name in names if name not in held]
    return missing


def list_packages() -> list[str]:
    """The packages that pyproject.toml puts into the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return packages

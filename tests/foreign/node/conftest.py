"""Programs of Node beside their packages."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
INSTALL_TIMEOUT_S = 110

InstallProgram = Callable[[Path], Path]


@pytest.fixture
def install_program(tmp_path: Path, missing_toolchain: Callable[[str], NoReturn]) -> InstallProgram:
    """Copies a program and the package.json beside it into a folder of its own, and installs what that names."""

    def install(program: Path) -> Path:
        for tool in ("node", "npm"):
            if shutil.which(tool) is None:
                missing_toolchain(f"{tool} is not installed")
        place = tmp_path / program.stem
        place.mkdir()
        for path in (program, program.with_name("package.json")):
            shutil.copy(path, place / path.name)
        installed = subprocess.run(INSTALL, cwd=place, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        if installed.returncode:
            missing_toolchain(f"npm cannot install the packages: {installed.stderr.strip()[-300:]}")
        return place / program.name

    return install

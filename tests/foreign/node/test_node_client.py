"""A client that is not ours does all five verbs: grpc-js, which reads the protos of this repository."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.services import ROOT, ServerProcess

HERE = Path(__file__).parent
INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]


@pytest.fixture
def client(tmp_path: Path, missing_toolchain: Callable[[str], NoReturn]) -> Path:
    """The script beside its packages, installed in a directory of its own."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            missing_toolchain(f"{tool} is not installed")
    place = tmp_path / "client"
    place.mkdir()
    for name in ("package.json", "client.js"):
        shutil.copy(HERE / name, place / name)
    installed = subprocess.run(INSTALL, cwd=place, capture_output=True, text=True, timeout=110)
    if installed.returncode:
        missing_toolchain(f"npm cannot install the packages: {installed.stderr.strip()[-300:]}")
    return place / "client.js"


@pytest.mark.timeout(240)
def test_a_node_client_does_all_five_verbs(client: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        command = ["node", client.name, server.address, str(ROOT / "protos")]
        ended = subprocess.run(command, cwd=client.parent, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout) == {"ok": True, "events": 6}
        assert server.stop() == 0

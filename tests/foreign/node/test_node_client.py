"""A client that is not ours does all five verbs: grpc-js, which reads the protos of this repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.foreign.node.conftest import InstallProgram
from tests.services import ROOT, ServerProcess

CLIENT = Path(__file__).with_name("client.js")


@pytest.mark.timeout(240)
def test_a_node_client_does_all_five_verbs(install_program: InstallProgram, tmp_path: Path) -> None:
    client = install_program(CLIENT)
    with ServerProcess(tmp_path / "data") as server:
        command = ["node", client.name, server.address, str(ROOT / "protos")]
        ended = subprocess.run(command, cwd=client.parent, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout) == {"ok": True, "events": 6}
        assert server.stop() == 0

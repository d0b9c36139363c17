"""Who may import whom: the contracts of pyproject.toml hold, and each one can break."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "env_server/model",
    "env_server/state_tree",
    "env_server/storage",
    "env_server/rpc",
    "agent_runtime/listeners",
    "agent_runtime/llm",
    "agent_runtime/rpc",
    "agent_runtime/turns",
    "agent_runtime/worker",
    "ecumene/client",
    "ecumene/sim",
    "ecumene/bench",
    "ecumene/bench/limits",
    "ecumene/bench/wire",
    "ecumene/launch",
    "ecumene/cli",
    "agent_api/v1",
    "env_api/v1",
    "env_storage/v1",
)
NAMED = tuple(
    f"agent_runtime/worker/{name}.py"
    for name in ("command_handler", "hosted_part", "part_clock", "pipeline", "program")
)
"""Modules that the contracts name, and so expect."""
ALLOWED = {
    "env_server/rpc/edge.py": "import grpc, env_api.v1, env_server.pipeline",
    "env_server/pipeline.py": "import asyncio, env_server.state_tree, env_server.storage",
    "env_server/storage/records.py": "import env_storage.v1, env_server.model",
    "ecumene/client/channel.py": "import grpc, env_api.v1",
    "agent_runtime/turns/turn.py": "import ecumene.client",
    "agent_runtime/rpc/edge.py": "import grpc, agent_api.v1, agent_runtime.turns",
    "agent_runtime/worker/program.py": "import agent_runtime.worker.pipeline",
}
# Contract id -> a file and the import in it that must break that contract.
PLANTED = {
    "stages": [
        ("env_server/storage/log.py", "import env_server.state_tree"),
        ("env_server/model/ops.py", "import env_server.rpc"),
        ("env_server/homeless.py", ""),
    ],
    "turn-stages": [
        ("agent_runtime/turns/turn.py", "import agent_runtime.listeners"),
        ("agent_runtime/llm/gateway.py", "import agent_runtime.turns"),
        ("agent_runtime/homeless.py", ""),
    ],
    "houses": [("ecumene/sim/spec.py", "import ecumene.cli"), ("ecumene/client/x.py", "import ecumene.sim")],
    "server-alone": [
        ("env_server/pipeline.py", "import ecumene.client"),
        ("env_server/pipeline.py", "import agent_runtime.turns"),
    ],
    "clients-alone": [
        ("ecumene/cli/serve.py", "import env_server"),
        ("ecumene/sim/run.py", "from agent_runtime import turns"),
    ],
    "runtime-client": [("agent_runtime/turns/turn.py", "import ecumene.sim")],
    "workers-apart": [("agent_runtime/rpc/edge.py", "import agent_runtime.worker.pipeline")],
    "generated": [
        ("env_server/storage/log.py", "import env_storage.v1"),
        ("env_server/pipeline.py", "import env_api.v1"),
        ("ecumene/sim/run.py", "from env_api import v1"),
        ("agent_runtime/turns/turn.py", "import agent_api.v1"),
    ],
    "grpc": [("env_server/pipeline.py", "import grpc.aio")],
    "runtime-grpc": [("agent_runtime/turns/turn.py", "import grpc")],
    "pure": [
        ("env_server/state_tree/__init__.py", "import time"),
        ("env_server/model/ops.py", "import asyncio"),
        ("env_server/state_tree/plan.py", "from random import random"),
        ("env_server/state_tree/plan.py", "import lmdb"),
    ],
}


def test_contracts_hold() -> None:
    result = lint(ROOT, [])
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout


def test_allowed_imports_pass(tmp_path: Path) -> None:
    write_tree(tmp_path, ALLOWED)
    result = lint(tmp_path, [])
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("contract", "path", "line"),
    [(contract, path, line) for contract, places in PLANTED.items() for path, line in places],
)
def test_contract_breaks_on_a_planted_import(tmp_path: Path, contract: str, path: str, line: str) -> None:
    write_tree(tmp_path, {path: line})
    result = lint(tmp_path, ["--contract", contract])
    assert result.returncode == 1, result.stdout + result.stderr
    assert "1 broken" in result.stdout, result.stdout + result.stderr


def test_every_contract_has_a_planted_import() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ids = [line.split('"')[1] for line in text.splitlines() if line.startswith("id = ")]
    assert sorted(ids) == sorted(PLANTED)


def write_tree(root: Path, files: dict[str, str]) -> None:
    """A small tree with the real contracts, the packages they name, and the given files."""
    (root / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for package in PACKAGES:
        folder = root / package
        folder.mkdir(parents=True)
        for place in (folder, folder.parent):
            (place / "__init__.py").touch()
    for path in NAMED:
        (root / path).touch()
    for path, line in files.items():
        (root / path).write_text(line + "\n", encoding="utf-8")


def lint(folder: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages of a folder."""
    places = [folder, folder / "clients" / "python", folder / "protos" / "gen" / "python"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "NO_COLOR": "1"}
    script = Path(sys.executable).parent / "lint-imports"
    command = [str(script), "--no-cache", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)

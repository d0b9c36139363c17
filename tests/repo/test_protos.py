"""The contract: generated code is current, every rpc says what it does, buf finds nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
RPC = re.compile(r"^\s*rpc\s+(\w+)")
MakeMissing = Callable[[str], NoReturn]


@pytest.fixture(scope="module")
def generator() -> Path | None:
    """The Python of the generator's venv, made by make; None where it cannot be made."""
    made = subprocess.run(["make", ".venv-protos/.installed"], cwd=ROOT, capture_output=True, timeout=300)
    return ROOT / ".venv-protos/bin/python" if made.returncode == 0 else None


@pytest.mark.timeout(400)
def test_generated_code_is_current(generator: Path | None, missing_toolchain: MakeMissing) -> None:
    if generator is None:
        missing_toolchain("the generator's venv (.venv-protos) cannot be made here")
    result = check_generated(generator, PROTOS)
    assert result.returncode == 0, result.stderr


@pytest.mark.timeout(400)
def test_stale_generated_code_is_found(generator: Path | None, missing_toolchain: MakeMissing, tmp_path: Path) -> None:
    if generator is None:
        missing_toolchain("the generator's venv (.venv-protos) cannot be made here")
    protos = copy_protos(tmp_path)
    proto = next(iter(sorted(protos.glob("env_api/v1/*.proto"))))
    proto.write_text(proto.read_text(encoding="utf-8") + "\nmessage Planted {}\n", encoding="utf-8")
    (protos / "gen/python/env_api/v1/removed_pb2.py").touch()
    result = check_generated(generator, protos)
    assert result.returncode == 1
    assert f"{proto.stem}_pb2.py: differs from its .proto" in result.stderr
    assert "removed_pb2.py: no .proto makes this file any more" in result.stderr


def test_every_rpc_has_a_comment() -> None:
    protos = sorted(path for path in PROTOS.glob("*/v*/*.proto"))
    assert protos
    assert [line for path in protos for line in find_bare_rpcs(path.name, path.read_text("utf-8"))] == []


def test_an_rpc_without_comment_is_found() -> None:
    service = "service S {\n  // Does it.\n  rpc Do(A) returns (B);\n\n  rpc Hide(A) returns (B);\n}\n"
    assert find_bare_rpcs("s.proto", service) == ["s.proto:5: rpc Hide has no comment"]


def test_buf_lint_is_clean(missing_toolchain: MakeMissing) -> None:
    result = run_buf(PROTOS, missing_toolchain)
    assert result.returncode == 0, result.stdout + result.stderr


def test_buf_lint_finds_a_planted_violation(missing_toolchain: MakeMissing, tmp_path: Path) -> None:
    protos = copy_protos(tmp_path)
    planted = 'syntax = "proto3";\npackage env_api.v1;\nmessage bad_name {}\n'
    (protos / "env_api/v1/planted.proto").write_text(planted, encoding="utf-8")
    result = run_buf(protos, missing_toolchain)
    assert result.returncode == 100
    assert "bad_name" in result.stdout


def find_bare_rpcs(name: str, text: str) -> list[str]:
    """One line for each rpc that no comment stands directly above."""
    lines = text.splitlines()
    found = ((number, RPC.match(line)) for number, line in enumerate(lines))
    return [
        f"{name}:{number + 1}: rpc {match[1]} has no comment"
        for number, match in found
        if match and not lines[number - 1].strip().startswith("//")
    ]


def check_generated(generator: Path, protos: Path) -> subprocess.CompletedProcess[str]:
    """Regenerate beside a proto folder and compare."""
    command = [str(generator), str(protos / "generate.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def copy_protos(target: Path) -> Path:
    """A copy of protos/ to plant violations in."""
    return Path(shutil.copytree(PROTOS, target / "protos", ignore=shutil.ignore_patterns("__pycache__")))


def run_buf(folder: Path, missing_toolchain: MakeMissing) -> subprocess.CompletedProcess[str]:
    """Lint a proto folder with the version of buf that the Makefile pins."""
    npx = shutil.which("npx")
    if npx is None:
        missing_toolchain("node is not installed: buf lint not run")
    version = re.search(r"^BUF_VERSION := (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert version
    command = [npx, "--yes", f"@bufbuild/buf@{version[1]}"]
    ready = subprocess.run([*command, "--version"], cwd=folder, capture_output=True, text=True, timeout=100)
    if ready.returncode:
        missing_toolchain("buf cannot be installed here: buf lint not run")
    return subprocess.run([*command, "lint"], cwd=folder, capture_output=True, text=True, timeout=60)

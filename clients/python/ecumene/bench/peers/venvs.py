"""Python peers in virtual environments of their own: made once, kept in the user's cache, never mixed with ours."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ecumene.bench.peers.absence import PeerAbsentError

INSTALL_TIMEOUT_S = 600.0
_REASON_CHARS_MAX = 200


async def make_python(name: str, requirements: Sequence[str]) -> str:
    """The interpreter of an environment with these packages.

    Raises PeerAbsentError if they cannot be installed.
    """
    directory = choose_directory(name, requirements)
    python = directory / "bin" / "python"
    done = directory / ".complete"
    if await asyncio.to_thread(done.exists):
        return str(python)
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    await _run(sys.executable, "-m", "venv", str(directory))
    await _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    await asyncio.to_thread(done.touch)
    return str(python)


def choose_directory(name: str, requirements: Sequence[str]) -> Path:
    """Where the environment lies: other requirements, or another Python, make another one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    asked = "\n".join([sys.version, *requirements])
    return cache / "ecumene" / "bench-peers" / f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(INSTALL_TIMEOUT_S):
            _, errors = await process.communicate()
    except TimeoutError as error:
        raise PeerAbsentError(f"installing took more than {INSTALL_TIMEOUT_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = [line for line in errors.decode(errors="replace").splitlines() if line.startswith("ERROR")]
        reason = lines[-1] if lines else f"exit code {process.returncode}"
        raise PeerAbsentError(f"it cannot be installed: {reason[:_REASON_CHARS_MAX]}")

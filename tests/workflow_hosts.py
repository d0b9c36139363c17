"""Hosts of workflows for tests: in this process, or as processes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ecumene import connect
from ecumene.workflows import StageLimits
from ecumene.workflows.cells import FinishedCall

from agent_runtime.workflows.hosting import Hosting
from agent_runtime.workflows.recording import CallCounts
from tests.services import ROOT, ServerProcess

LEASE_TTL_S = 2.0


class KeptCalls(CallCounts):
    """Keeps what a host records."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[FinishedCall] = []

    def record(self, call: FinishedCall) -> None:
        super().record(call)
        self.calls.append(call)


@asynccontextmanager
async def host_here(
    address: str, name: str, limits: StageLimits | None = None, observer: CallCounts | None = None
) -> AsyncIterator[Hosting]:
    """A host in this process."""
    async with connect(address) as world:
        kept = observer or KeptCalls()
        hosting = Hosting(world, name, kept, limits or StageLimits(), random.Random(1), LEASE_TTL_S, None)
        try:
            await hosting.start({})
            yield hosting
            await hosting.stop(5)
        finally:
            await hosting.close()


class HostChild:
    """A host as a process, ended by its pid."""

    def __init__(self, address: str, name: str, *arguments: str, lease_ttl_s: float = LEASE_TTL_S) -> None:
        command = [sys.executable, "-m", "agent_runtime.workflows.host", "--server", address, "--name", name]
        command += ["--lease-ttl-s", str(lease_ttl_s), "--with-parent", *arguments]
        if not {"--module", "--any-module"} & {*arguments}:
            command += ["--module", "tests.workflow_actors"]
        self.name = name
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def wait_ready(self) -> HostChild:
        """Until it takes calls."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert b'"ready"' in line, line
        return self

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self.process.kill()
        self.close()

    def close(self) -> int:
        """Wait for its end, and forget it."""
        out, _ = self.process.communicate(timeout=60)
        self.last_lines = out.decode().splitlines()
        return self.process.returncode

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.close()


@contextmanager
def two_hosts(folder: Path, lease_ttl_s: float = LEASE_TTL_S) -> Iterator[tuple[ServerProcess, list[HostChild]]]:
    """A real server with the hosts `ann` and `bob`, which must end in order."""
    with ServerProcess(folder / "data") as server:
        children = [HostChild(server.address, name, lease_ttl_s=lease_ttl_s) for name in ("ann", "bob")]
        try:
            yield server, [child.wait_ready() for child in children]
        finally:
            codes = [child.stop() for child in children]
        assert codes == [0, 0]

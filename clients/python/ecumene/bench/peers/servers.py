"""etcd and Redis as a benchmark runs them: on loopback, every write synced, data in a directory of the run."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ecumene.bench.peers.absence import PeerAbsentError
from ecumene.bench.processes import STOP_TIMEOUT_S, make_directory

INSTALL_TIMEOUT_S = 300.0
START_TIMEOUT_S = 20.0
_POLL_INTERVAL_S = 0.05


@asynccontextmanager
async def run_etcd() -> AsyncIterator[str]:
    """An etcd of one member; its address. Every put is in its write-ahead log and synced before it is answered."""
    program = await find_program("etcd", "etcd-server")
    client, peer = (f"127.0.0.1:{port}" for port in take_free_ports(2))
    async with make_directory() as directory:
        arguments = [
            *("--data-dir", str(directory / "data"), "--name", "bench"),
            *("--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}"),
            *("--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}"),
            *("--initial-cluster", f"bench=http://{peer}"),
        ]
        async with run_program([program, *arguments], client):
            yield client


@asynccontextmanager
async def run_redis() -> AsyncIterator[str]:
    """A Redis with `appendfsync always`: a write is synced before it is answered. Its address."""
    program = await find_program("redis-server", "redis-server")
    (port,) = take_free_ports(1)
    async with make_directory() as directory:
        arguments = [
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        ]
        async with run_program([program, *arguments], f"127.0.0.1:{port}"):
            yield f"127.0.0.1:{port}"


async def find_program(name: str, package: str) -> str:
    """The path of a program; installs its Debian package when it is missing and this user may.

    Raises PeerAbsentError.
    """
    found = shutil.which(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        await _install(package)
        found = shutil.which(name)
    if found is None:
        raise PeerAbsentError(f"{name} is not installed (Debian: apt-get install {package})")
    return found


def take_free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@asynccontextmanager
async def run_program(command: Sequence[str], address: str) -> AsyncIterator[int]:
    """Run a server until the block is left; entered when it listens. Its process id.

    Raises PeerAbsentError if it does not start.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await _wait_until_listening(process, Path(command[0]).name, address)
        yield process.pid
    finally:
        await _end(process)


async def _wait_until_listening(process: asyncio.subprocess.Process, name: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except OSError:
                    await asyncio.sleep(_POLL_INTERVAL_S)
                    continue
                writer.close()
                return
    except TimeoutError as error:
        raise PeerAbsentError(f"{name} did not listen within {START_TIMEOUT_S:g} s") from error
    raise PeerAbsentError(f"{name} ended at once with exit code {process.returncode}")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _install(package: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *("apt-get", "install", "--yes", "--no-install-recommends", package),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    try:
        async with asyncio.timeout(INSTALL_TIMEOUT_S):
            await process.wait()
    except TimeoutError as error:
        raise PeerAbsentError(f"apt-get install {package} took more than {INSTALL_TIMEOUT_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

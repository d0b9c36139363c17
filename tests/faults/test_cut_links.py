"""A link that is cut without a word: the client goes on when it is back, and the server reaps what it left behind.

Needs a network namespace of its own, with a pair of interfaces into it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import ecumene
import psutil
import pytest
from ecumene.client.runtime_errors import SeatTakenError
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.launch.node_runs import GroupAgents, launch_run

from tests.services import ROOT, ServerProcess
from tests.unit.agent_runtime.nodes import dump_agents, name_agents
from tests.unit.agent_runtime.stage import WAKE

CUT_S = 4.0
SESSIONS = 40
SEATS = 20
REAPED_S = 75.0
"""Keep-alives every 30 s, 10 s to answer, and their schedule."""


@dataclass(frozen=True)
class FarNetwork:
    """A namespace with one address, and ours on the other end of the link."""

    namespace: str
    link: str
    server_host: str
    client_host: str

    def cut(self) -> None:
        """Nothing passes, and nobody is told: the far end is down."""
        run_ip("-n", self.namespace, "link", "set", f"{self.link}b", "down")

    def mend(self) -> None:
        """The link is back."""
        run_ip("-n", self.namespace, "link", "set", f"{self.link}b", "up")

    def start(self, port: int, *arguments: str) -> subprocess.Popen[str]:
        """A client over there, of what listens on this side."""
        command = [
            *("ip", "netns", "exec", self.namespace, sys.executable, "-m", "tests.faults.far_client"),
            *(f"{self.server_host}:{port}", *arguments),
        ]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def far_network(missing_toolchain: Callable[[str], NoReturn]) -> Iterator[FarNetwork]:
    """Made for this test; a visible skip where that is not allowed."""
    number = os.getpid() % 250
    network = FarNetwork(f"ecumene{os.getpid()}", f"ec{os.getpid()}", f"10.231.{number}.1", f"10.231.{number}.2")
    try:
        run_ip("netns", "add", network.namespace)
    except (OSError, subprocess.CalledProcessError):
        missing_toolchain("a network namespace, to cut a link without a word")
    try:
        near, far = f"{network.link}a", f"{network.link}b"
        run_ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", network.namespace)
        run_ip("addr", "add", f"{network.server_host}/30", "dev", near)
        run_ip("link", "set", near, "up")
        run_ip("-n", network.namespace, "addr", "add", f"{network.client_host}/30", "dev", far)
        network.mend()
        yield network
    finally:
        # A namespace whose connections still linger keeps its link for a while; by its own name it goes at once.
        subprocess.run(["ip", "link", "del", f"{network.link}a"], check=False, capture_output=True)
        run_ip("netns", "del", network.namespace)


def serve(network: FarNetwork, directory: Path) -> ServerProcess:
    return ServerProcess(directory, "--host", network.server_host, "--insecure")


def end(client: subprocess.Popen[str]) -> None:
    client.kill()
    client.wait()
    for stream in (client.stdin, client.stdout):
        if stream is not None:
            stream.close()


def read_line(client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None
    line = client.stdout.readline()
    assert line, "the client has ended"
    return line.strip()


async def test_a_client_goes_on_when_its_link_is_back(far_network: FarNetwork, tmp_path: Path) -> None:
    with serve(far_network, tmp_path / "data") as server:
        client = far_network.start(server.port, "count")
        try:
            for wanted in range(1, 101):
                assert await asyncio.to_thread(read_line, client) == str(wanted)
            for _ in range(2):
                far_network.cut()
                await asyncio.sleep(CUT_S)  # the length of the fault
                far_network.mend()
                before = wanted
                while wanted < before + 100:
                    wanted += 1
                    assert await asyncio.to_thread(read_line, client) == str(wanted), "in order, once each"
            assert client.stdin is not None
            client.stdin.write("enough\n")
            client.stdin.flush()
            while not (line := await asyncio.to_thread(read_line, client)).startswith("total"):
                wanted += 1
                assert line == str(wanted)
            assert line == f"total {wanted}"
        finally:
            end(client)
        async with ecumene.connect(f"{far_network.server_host}:{server.port}") as world:
            entry = await world.environment("/").get("n")
            assert (entry.value, entry.version) == (wanted, wanted)


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_what_a_cut_link_left_behind_is_reaped(far_network: FarNetwork, tmp_path: Path) -> None:
    """Half-open connections do not fill the server: connections and their sessions go, and others are served."""
    with serve(far_network, tmp_path / "data") as server:
        address = f"{far_network.server_host}:{server.port}"
        client = far_network.start(server.port, "hold", str(SESSIONS))
        try:
            assert await asyncio.to_thread(read_line, client) == "ready"
            process = psutil.Process(server.pid)
            held = connections_from(process, far_network.client_host)
            assert len(held) == SESSIONS
            far_network.cut()
            async with ecumene.connect(address) as world:
                loop = asyncio.get_running_loop()
                began = loop.time()
                while connections_from(process, far_network.client_host):
                    assert loop.time() - began < REAPED_S, "half-open connections are kept"
                    await world.environment("/").increment("alive", 1)
                    await asyncio.sleep(0.5)
        finally:
            end(client)
        assert server.stop() == 0, "nothing of them holds up the end"


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_what_a_cut_link_left_behind_at_a_node_is_reaped(far_network: FarNetwork, tmp_path: Path) -> None:
    """The same for a node: whoever sat there without a word any more has left, and others may take the places."""
    with ServerProcess(tmp_path / "data") as server:
        node = start_node(server.address, far_network.server_host, tmp_path)
        client = None
        try:
            assert node.stdout is not None
            address = str(json.loads(node.stdout.readline())["address"])
            await launch(server.address)
            process = psutil.Process(node.pid)
            client = far_network.start(int(address.rpartition(":")[2]), "sit", str(SEATS))
            assert await asyncio.to_thread(read_line, client) == "ready"
            assert len(connections_from(process, far_network.client_host)) == SEATS
            far_network.cut()
            loop = asyncio.get_running_loop()
            began = loop.time()
            async with RuntimeNode(address) as near:
                with pytest.raises(SeatTakenError):
                    await sit_down(near, 0)
                while connections_from(process, far_network.client_host):
                    assert loop.time() - began < REAPED_S, "half-open connections are kept"
                    assert (await near.inspect(brief=True)).agents == SEATS
                    await asyncio.sleep(0.5)
                async with asyncio.timeout(5):
                    for number in range(SEATS):
                        await sit_down(near, number)
        finally:
            if client is not None:
                end(client)
            node.terminate()
            code = await asyncio.to_thread(node.wait, 30)
            assert node.stdout is not None
            node.stdout.close()
        assert code == 0, "nothing of them holds up the end"


def start_node(server: str, host: str, folder: Path) -> subprocess.Popen[str]:
    """A node that the far client reaches."""
    command = [sys.executable, "-m", "ecumene.cli", "runtime", "--server", server, "--name", "a"]
    command += ["--listen", f"{host}:0", "--insecure", "--scratch", str(folder)]
    with (folder / "node.log").open("wb") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)


async def launch(server: str) -> None:
    """As many agents as are to be sat for."""
    async with ecumene.connect(server) as world:
        group = {"name": "g", "agent": "level-k", "wake": list(WAKE), "parameters": {"level": 1}}
        agents = GroupAgents(SEATS, b"".join(dump_agents(name_agents(SEATS))))
        await launch_run(world, {"run": "r", "groups": [group]}, {"g": agents})


async def sit_down(node: RuntimeNode, number: int) -> None:
    """Takes a place, and leaves it."""
    async with node.sit("r", f"agent-{number}", actor="near", timeout_s=5):
        pass


def connections_from(process: psutil.Process, host: str) -> list[Any]:
    return [one for one in process.net_connections("tcp") if one.raddr and host in one.raddr.ip]

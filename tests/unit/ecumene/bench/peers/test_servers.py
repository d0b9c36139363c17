"""Servers of peers: entered when they listen, gone when the block is left, absent with a reason."""

from __future__ import annotations

import os
import sys

import pytest
from ecumene.bench.peers.absence import PeerAbsentError
from ecumene.bench.peers.servers import find_program, run_program, take_free_ports

LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"


async def test_a_program_listens_inside_the_block_and_is_gone_after_it() -> None:
    (port,) = take_free_ports(1)
    async with run_program([sys.executable, "-c", LISTEN, str(port)], f"127.0.0.1:{port}") as pid:
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_that_ends_at_once_is_absent() -> None:
    (port,) = take_free_ports(1)
    with pytest.raises(PeerAbsentError, match="ended at once with exit code 3"):
        async with run_program([sys.executable, "-c", "raise SystemExit(3)"], f"127.0.0.1:{port}"):
            raise AssertionError("it does not listen")


async def test_a_missing_program_is_absent_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PeerAbsentError, match="apt-get install etcd-server"):
        await find_program("no-such-program", "etcd-server")


def test_free_ports_differ() -> None:
    assert len(set(take_free_ports(8))) == 8

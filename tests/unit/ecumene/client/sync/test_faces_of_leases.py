"""What has tasks of its own in the asyncio SDK, from a program without a loop: leases, locks, subscriptions, groups."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from ecumene import ClientSettings, EventFilter, sync
from env_api.v1 import lease_service_pb2, lease_service_pb2_grpc

from tests.services import ServerProcess
from tests.unit.ecumene.client.sync.conftest import reached

TTL_S = 1.0


@pytest.fixture
def real_world(tmp_path: Path) -> Iterator[sync.World]:
    """A world of a real server, with an environment /room."""
    with ServerProcess(tmp_path / "data") as server, sync.connect(server.address, groups=["/room"]) as world:
        with sync.connect(server.address) as everybody:
            everybody.environment("/room").register()
        yield world.as_group("/room")


def test_a_lease_is_kept_while_the_program_does_something_else(real_world: sync.World) -> None:
    room = real_world.environment("/room")
    with real_world.lease(TTL_S) as lease:
        assert lease.join("/room", ["ann", "bob"]) == 2
        time.sleep(2.5 * TTL_S)  # nobody but the SDK does anything
        assert lease.is_certain
        assert [entry.key for entry in room.entries()] == ["ann", "bob"]
        with real_world.lock("/room", "lock", lease) as token:
            done = real_world.transaction().require("/room", "lock", created_revision=token).set("/room", "x", 1)
            assert done.commit().revision > token
        assert lease.leave("/room", ["ann"]) == 1
    assert lease.is_ended
    reached(lambda: [entry.key for entry in room.entries()] == ["x"])


def test_a_lost_lease_ends_the_block_with_its_error(tmp_path: Path) -> None:
    told = threading.Event()
    with (
        ServerProcess(tmp_path / "data") as server,
        sync.connect(server.address) as world,
        pytest.raises(sync.LeaseExpiredError),
        world.lease(TTL_S, on_lost=lambda _: told.set()) as lease,
    ):
        with grpc.insecure_channel(server.address) as channel:
            stub: Any = lease_service_pb2_grpc.LeaseServiceStub(channel)
            stub.RevokeLease(lease_service_pb2.RevokeLeaseRequest(lease_id=lease.id))
        assert told.wait(10)


def test_locks_of_threads_exclude_each_other(tmp_path: Path) -> None:
    inside, entered = 0, 0
    with ServerProcess(tmp_path / "data") as server, sync.connect(server.address) as world, world.lease(30) as lease:

        def work() -> None:
            nonlocal inside, entered
            for _ in range(5):
                with world.lock("/", "lock", lease):
                    inside += 1
                    assert inside == 1
                    time.sleep(0.002)
                    inside -= 1
                    entered += 1

        threads = [threading.Thread(target=work, name="worker") for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert entered == 20


def test_deliveries_are_read_in_a_loop_and_acknowledged_with_their_effects(tmp_path: Path) -> None:
    settings = ClientSettings(backoff_first_ms=5, backoff_ms_max=50)
    with ServerProcess(tmp_path / "data") as server, sync.connect(server.address, settings=settings) as world:
        inbox = world.subscription("inbox")
        inbox.create(EventFilter(key_glob="job-*"), ack_timeout_ms=1000)
        for number in range(10):
            world.environment("/").set(f"job-{number}", number)
        seen: list[str] = []
        with inbox.consume() as deliveries:
            for delivery in deliveries:
                time.sleep(0.05)
                effects = world.transaction().acknowledge(delivery)
                for event in delivery:
                    effects.increment("/", "done")
                    seen.append(event.key)
                effects.commit()
                if len(seen) == 10:
                    break
        assert seen == [f"job-{number}" for number in range(10)]
        assert world.environment("/").value("done") == 10
        for delivery in itertools.islice(inbox.consume(), 0):
            raise AssertionError(delivery)
        reached(lambda: not inbox.describe().consumers)

"""MemoryCommitLog keeps the interface, and loses exactly what a crash loses."""

import pytest

from env_server.model.limits import Limits
from env_server.storage.errors import StorageClosed, StorageInUse
from tests.contracts.commit_log import check_commit_log, make_group
from tests.unit.env_server.storage.stands import MemoryStand


def test_keeps_the_interface(seed: int) -> None:
    check_commit_log(MemoryStand(), seed)


def test_durable_in_the_next_step_and_together() -> None:
    stand = MemoryStand()
    log = stand.open(Limits())
    stand.start(log)
    groups = [make_group([])]
    groups.append(make_group(groups))
    for group in groups:
        log.append(group, None)
    assert stand.durable == []
    stand.clock.step()
    assert stand.durable == [2]
    assert log.read(1, 1 << 20) == groups


def test_a_kill_loses_what_was_not_durable() -> None:
    stand = MemoryStand()
    log = stand.open(Limits())
    stand.start(log)
    groups = [make_group([])]
    log.append(groups[0], None)
    stand.clock.step()
    log.append(make_group(groups), None)
    log.kill()
    stand.clock.step()
    assert stand.durable == [1]
    with pytest.raises(StorageClosed):
        log.append(make_group(groups), None)
    again = stand.open(Limits())
    assert list(again.load().records) == groups
    log.kill()  # of a log that is gone: does not free the disk for a third one
    with pytest.raises(StorageInUse):
        stand.open(Limits())


def test_after_a_failure_nothing_becomes_durable() -> None:
    stand = MemoryStand()
    log = stand.open(Limits())
    stand.start(log)
    error = OSError(5, "Input/output error")
    log.fail_next(error)
    groups = [make_group([])]
    log.append(groups[0], None)
    stand.clock.step()
    log.append(make_group(groups), None)
    stand.clock.step()
    log.close()
    assert stand.fatal == [error]
    assert stand.durable == []
    assert list(stand.open(Limits()).load().records) == []

"""Records that are missing, damaged or out of place are never taken for the log."""

from dataclasses import replace

import pytest

from env_server.model.changes import Changes
from env_server.model.ports import Head
from env_server.storage.errors import DataLoss
from env_server.storage.groups import seal_group
from env_server.storage.layout import log_key
from env_server.storage.log_reading import check_head, replay, select
from env_server.storage.rows import Pair
from tests.contracts.commit_log import make_group


def make_log(count: int) -> tuple[list[Changes], list[Pair], Head]:
    groups: list[Changes] = []
    for _ in range(count):
        groups.append(make_group(groups))
    pairs = [(log_key(group.last_revision, group.number), seal_group(group, None, 0).value) for group in groups]
    return groups, pairs, Head("h", count, count, 0, 1, 0)


def test_replay_begins_after_what_is_applied() -> None:
    groups, pairs, head = make_log(5)
    assert list(replay(pairs, head)) == groups
    assert list(replay(pairs, head._replace(applied_through=3))) == groups[3:]
    assert list(replay(pairs, head._replace(applied_through=5))) == []


@pytest.mark.parametrize("missing", range(5))
def test_a_missing_record_is_found(missing: int) -> None:
    _, pairs, head = make_log(5)
    del pairs[missing]
    with pytest.raises(DataLoss):
        list(replay(pairs, head))


def test_a_record_under_another_key_is_found() -> None:
    _, pairs, head = make_log(3)
    pairs[1] = (pairs[1][0], pairs[2][1])
    with pytest.raises(DataLoss, match="in the place of another"):
        list(replay(pairs, head))


def test_a_gap_in_the_revisions_is_found() -> None:
    groups, pairs, head = make_log(2)
    late = replace(groups[1], base_revision=5, last_revision=6, revisions=[6])
    pairs[1] = (log_key(6, 2), seal_group(late, None, 0).value)
    with pytest.raises(DataLoss):
        list(replay(pairs, head._replace(revision=6)))


@pytest.mark.parametrize(
    ("first", "last", "count", "applied"),
    [
        (None, None, 0, 4),  # empty, but the state is behind the head
        (log_key(1, 1), log_key(4, 4), 4, 0),  # the head's record is missing
        (log_key(1, 1), log_key(5, 5), 4, 0),  # one in the middle is missing
        (log_key(3, 3), log_key(5, 5), 3, 1),  # record 2 is neither applied nor there
    ],
)
def test_a_head_that_the_log_contradicts_is_refused(
    first: bytes | None, last: bytes | None, count: int, applied: int
) -> None:
    with pytest.raises(DataLoss):
        check_head(Head("h", 5, 5, 0, 1, applied), first, last, count)


def test_a_head_that_agrees_is_accepted() -> None:
    check_head(Head("h", 5, 5, 0, 1, 5), None, None, 0)
    check_head(Head("h", 5, 5, 0, 3, 2), log_key(3, 3), log_key(5, 5), 3)


def test_a_record_that_is_missing_from_what_is_read_is_found() -> None:
    groups, pairs, head = make_log(6)
    told = [group for group in groups if group.last_revision > group.base_revision]
    assert select(pairs, 1, 1 << 30, head.revision) == told
    for group in told:
        found = [pair for pair in pairs if pair[0] != log_key(group.last_revision, group.number)]
        with pytest.raises(DataLoss):
            select(found, 1, 1 << 30, head.revision)
    assert select(pairs, 1, 0, head.revision) == told[:1], "what follows was not asked for"

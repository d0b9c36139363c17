"""What one commit writes is bounded: slices of dropped ranges, slices of the log's beginning."""

from pathlib import Path

from env_server.model.changes import Changes, FactKind
from env_server.model.entries import VALUE, Entry
from env_server.model.limits import Limits
from env_server.storage import layout
from env_server.storage.lmdb_commit import DROPPED_KEYS_MAX
from env_server.storage.trimming import TRIMMED_RECORDS_MAX
from tests.contracts.commit_log import empty_chunk, make_group
from tests.unit.env_server.storage.stands import LmdbStand

LIMITS = Limits(map_bytes=256 << 20)


def test_a_range_is_dropped_in_slices_over_commits_and_restarts(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(LIMITS)
    stand.start(log)
    groups: list[Changes] = []

    def commit(chunk: object = None) -> int:
        groups.append(make_group(groups))
        log.append(groups[-1], chunk)  # type: ignore[arg-type]
        stand.wait(groups[-1].number)
        with log._tables.env.begin() as transaction:
            return int(transaction.stat(log._tables["entries"])["entries"])

    size = 2 * DROPPED_KEYS_MAX + 500
    entries: dict[tuple[int, str], Entry | None] = {
        (9, f"key-{index}"): Entry(index, 1, 5, 5, VALUE) for index in range(size)
    }
    entries[8, "kept"] = entries[10, "kept"] = Entry(1.5, 1, 1, 1, VALUE)
    assert commit(empty_chunk()._replace(entries=entries)) == size + 2
    assert commit(empty_chunk()._replace(entry_ranges_deleted=(9, 11))) == size + 2 - DROPPED_KEYS_MAX
    log.close()
    log = stand.open(LIMITS)
    stand.start(log)
    assert commit() == size + 2 - 2 * DROPPED_KEYS_MAX
    assert commit() == 2
    with log._tables.env.begin() as transaction:
        assert transaction.stat(log._tables["dropped"])["entries"] == 0
    log.close()


def test_timers_go_with_their_environment_in_slices_and_no_other_fact_does(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(LIMITS)
    stand.start(log)
    groups: list[Changes] = []
    others = [(FactKind.TIMER, "90/t"), (FactKind.TIMER, "8/t"), (FactKind.CLOCK, "9"), (FactKind.LEASE, "9/t")]

    def commit(chunk: object = None) -> list[tuple[int, str]]:
        groups.append(make_group(groups))
        log.append(groups[-1], chunk)  # type: ignore[arg-type]
        stand.wait(groups[-1].number)
        with log._tables.env.begin() as transaction:
            return [layout.split_fact_key(key) for key, _ in transaction.cursor(log._tables[layout.FACTS])]

    facts = {(FactKind.TIMER, f"9/{index}"): b"{}" for index in range(DROPPED_KEYS_MAX + 500)}
    commit(empty_chunk()._replace(facts={**facts, **dict.fromkeys(others, b"{}")}))  # type: ignore[arg-type]
    assert len(commit(empty_chunk()._replace(entry_ranges_deleted=(9,)))) == 500 + len(others)
    assert sorted(commit()) == sorted(others)
    assert commit(empty_chunk()._replace(entry_ranges_deleted=(1,))) == commit()
    log.close()


def test_a_commit_trims_a_bounded_number_of_records(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    groups: list[Changes] = []
    log = stand.open(LIMITS)
    stand.start(log)
    for _ in range(TRIMMED_RECORDS_MAX * 2):
        groups.append(make_group(groups))
        log.append(groups[-1], None)
    log.close()
    log = stand.open(Limits(map_bytes=256 << 20, log_bytes_max=4096))
    stand.start(log)
    groups.append(make_group(groups))
    log.append(groups[-1], empty_chunk()._replace(applied_through=groups[-2].number))
    stand.wait(groups[-1].number)
    assert log.first_revision == 1 + TRIMMED_RECORDS_MAX
    log.close()


def test_the_log_stays_within_its_bytes(tmp_path: Path) -> None:
    """A map four times the log is never full, although large and small records take turns in its pages."""
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits(map_bytes=16 << 20, log_bytes_max=4 << 20))
    stand.start(log)
    groups: list[Changes] = []
    for index in range(400):
        group = make_group(groups[-1:])
        group.number, group.base_revision, group.last_revision, group.revisions = (
            index + 1,
            index,
            index + 1,
            [index + 1],
        )
        group.values = [b"x" * (300_000 if index % 7 == 0 else 30_000 if index % 2 else 300)]
        groups.append(group)
        log.append(group, empty_chunk()._replace(applied_through=index + 1))
        if index % 8 == 0:
            stand.wait(index + 1)
    stand.wait(400)
    assert stand.fatal == []
    assert log.storage_bytes() < 6 << 20
    assert log.first_revision > 300
    log.close()

"""Which events go to whom."""

from env_server.model.changes import Changes, Place
from env_server.subscriptions.partitions import NOT_MINE, find_hashes, hash_of, select_partitions

KEYS = [f"k{number}" for number in range(500)]


def make_changes() -> Changes:
    changes = Changes(1, 0)
    changes.places = [Place(1, "/a", {}), Place(2, "/straße", {})]
    changes.path = [row % 2 for row in range(len(KEYS))]
    changes.keys = list(KEYS)
    changes.revisions = list(range(1, len(KEYS) + 1))
    return changes


def test_the_hash_is_what_it_was_when_cursors_were_stored_by_it() -> None:
    """Another function would deliver acknowledged events again, and leave others out."""
    assert [hash_of("/", ""), hash_of("/town", "mood"), hash_of("/straße", "größe")] == [
        1_405_430_418,
        3_222_593_920,
        544_414_008,
    ]


def test_rows_hash_as_their_places_do_and_only_once_a_group() -> None:
    changes = make_changes()
    hashes = find_hashes(changes)
    places = [changes.places[place].path for place in changes.path]
    assert list(hashes) == [hash_of(path, key) for path, key in zip(places, KEYS, strict=True)]
    assert find_hashes(changes) is hashes


def test_the_partitions_share_all_rows() -> None:
    changes = make_changes()
    found = []
    for mine in range(7):
        floors = [NOT_MINE] * 7
        floors[mine] = 0
        rows = select_partitions(changes, None, floors)
        assert rows is not None
        assert len(rows) > len(KEYS) // 14
        found += rows
    assert sorted(found) == list(range(len(KEYS)))
    assert select_partitions(changes, None, [0] * 7) is None


def test_rows_at_or_below_the_floor_of_their_partition_are_left_out() -> None:
    changes = make_changes()
    floors = [100, 400]
    rows = select_partitions(changes, range(450), floors)
    assert rows == [
        row for row, hashed in enumerate(find_hashes(changes)) if row < 450 and row + 1 > floors[hashed % 2]
    ]

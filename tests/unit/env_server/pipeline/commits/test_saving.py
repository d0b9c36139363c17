"""Saving rounds: chunks follow the groups that they ride with, and a round ends before too much is unsaved."""

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Changes
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.operations import Code
from env_server.model.ports import StateChunk
from env_server.pipeline.commits.saving import Saving
from env_server.state_tree import entry_writes
from env_server.state_tree.tree import Tree

LIMITS = Limits(replay_ops_max=20_000)


class Stand:
    """A tree whose changes are saved; keys are drawn far from each other, so that they need sorting."""

    def __init__(self) -> None:
        self.tree = Tree(LIMITS)
        self.tree.begin_group(Changes(number=1, base_revision=0))
        self.producers = Producers(LIMITS)
        self.saving = Saving(self.tree, self.producers, Sessions(LIMITS), LIMITS)
        self.group = 0
        self.written = 0

    def commit(self, changes: int, own_producers: bool = False) -> StateChunk | None:
        """One group of so many changes of other keys each; what goes with it."""
        self.group += 1
        write = entry_writes.BY_CODE[Code.SET]
        for _ in range(changes):
            self.written += 1
            key = f"k{self.written * 7919 % 1_000_003}"
            assert write(self.tree, self.tree.nodes.root, key, 1.0) is None
            revision = self.tree.advance()
            if own_producers:
                self.producers.keep(key, 1, Written(revision, 1))
        self.tree.begin_group(Changes(number=self.group + 1, base_revision=self.tree.revision))
        return self.saving.next_chunk(changes, self.group)


def count_rows(chunk: StateChunk | None) -> int:
    return 0 if chunk is None else len(chunk.entries) + len(chunk.producers) + len(chunk.facts)


def test_a_commit_of_one_change_carries_little() -> None:
    stand = Stand()
    while stand.commit(1000) is None:
        pass
    carried = []
    while (chunk := stand.commit(1)) is None or chunk.applied_through is None:
        carried.append(count_rows(chunk))
    assert max(carried) == 256
    assert sum(carried) == stand.written - len(carried) - 1


def test_a_round_ends_before_half_of_what_may_be_unsaved_has_come() -> None:
    for size in (10, 100, 1000):
        stand = Stand()
        while stand.commit(size, own_producers=True) is None:
            pass
        begun = stand.written
        while (chunk := stand.commit(size, own_producers=True)) is None or chunk.applied_through is None:
            pass
        assert stand.written - begun <= LIMITS.replay_ops_max // 2 + size


def test_a_world_without_room_is_saved_in_large_chunks() -> None:
    stand = Stand()
    stand.commit(9000)
    stand.saving.urge()
    carried = []
    while (chunk := stand.commit(0)) is None or chunk.applied_through is None:
        carried.append(count_rows(chunk))
    assert max(carried) == 8192
    assert sum(carried) == 9000


def test_small_environments_share_a_chunk() -> None:
    stand = Stand()
    nodes = stand.tree.nodes
    children = [nodes.attach(index, nodes.root, f"room{index}") for index in range(2, 502)]
    write = entry_writes.BY_CODE[Code.SET]
    for child in children:
        for key in ("a", "b"):
            write(stand.tree, child, key, 1.0)
            stand.tree.advance()
    chunks = list(stand.tree.unsaved.round(lambda: 256))
    assert sum(len(chunk.entries) for chunk in chunks) == 1000
    assert len(chunks) <= 6

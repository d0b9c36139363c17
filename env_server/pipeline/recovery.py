"""Recovery: a world from what its log has stored."""

from collections.abc import Iterable
from typing import NamedTuple

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import Changes, Fact, FactKind
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog, Loaded, Origin
from env_server.pipeline.timekeeping.loading import StoredTime, load_time
from env_server.schemas.compiler import compile_schema
from env_server.space.spaces import open_space
from env_server.state_tree.replay import Replay
from env_server.state_tree.tree import Tree

Facts = dict[FactKind, dict[str, bytes]]
"""By kind and key."""


class Recovered(NamedTuple):
    """Where the recovered world stands."""

    history: str
    record_number: int
    changes_replayed: int
    bytes_replayed: int
    facts: Facts
    """But those of clocks and timers."""
    facts_replayed: list[Fact]
    """Those that the tables may lack."""
    restored_from: Origin | None
    time: StoredTime


class Recovery(NamedTuple):
    """A world in memory that nobody serves yet."""

    tree: Tree
    producers: Producers
    sessions: Sessions
    recovered: Recovered


def load_world(log: CommitLog, limits: Limits) -> Recovery:
    """Brings into memory what an unstarted log has stored. May run on any thread: nobody else has it yet.

    Raises:
        DataLoss: a row or record is damaged.
    """
    tree = Tree(limits, compile_schema, open_space)
    producers, sessions = Producers(limits), Sessions(limits)
    return Recovery(tree, producers, sessions, recover(log.load(), tree, producers, sessions))


def recover(loaded: Loaded, tree: Tree, producers: Producers, sessions: Sessions) -> Recovered:
    """Fills tree, producers and sessions from the state tables, then from the records that those lack."""
    replay = Replay(tree)
    for environment in loaded.environments:
        replay.environment(environment)
    for number, key, entry in loaded.entries:
        replay.entry(number, key, entry)
    for number, key, item in loaded.items:
        replay.item(number, key, item)
    for producer, mark in loaded.producers:
        producers.load(producer, mark)
    for session in sorted(loaded.sessions, key=lambda mark: mark.used):
        sessions.load(session)
    head = loaded.head
    facts: Facts = {kind: {} for kind in FactKind}
    take_over(loaded.facts, facts)
    facts_replayed: list[Fact] = []
    changes_replayed = bytes_replayed = 0
    for record in loaded.records:
        replay.record(record)
        replay_identities(record, producers, sessions)
        take_over(record.facts, facts)
        facts_replayed += record.facts
        changes_replayed += len(record)
        bytes_replayed += record.size_bytes
    sessions.forget_idle()
    tree.revision = head.revision
    tree.nodes.next_number = max(tree.nodes.next_number, head.next_environment_number)
    replay.finish()
    time = load_time(tree, facts.pop(FactKind.CLOCK), facts.pop(FactKind.TIMER))
    return Recovered(
        *(head.history, head.record_number, changes_replayed, bytes_replayed),
        *(facts, facts_replayed, head.restored_from, time),
    )


def take_over(found: Iterable[Fact], facts: Facts) -> None:
    """Takes over facts in order, into dicts of every kind."""
    for kind, key, value in found:
        if value is None:
            facts[kind].pop(key, None)
        else:
            facts[kind][key] = value


def replay_identities(record: Changes, producers: Producers, sessions: Sessions) -> None:
    """The rows tell the outcomes of plain writes; all others stand in the record's lists."""
    frames = {(kept.client_id, kept.seq) for kept in record.answers}
    last: tuple[str, int] = ("", 0)
    for row, producer in enumerate(record.producers):
        identity = producer, record.producer_seqs[row]
        if not producer or identity == last or identity in frames:
            continue
        last = identity
        producers.replay(producer, identity[1], Written(record.revisions[row], record.told_version(row)))
    for producer, seq, outcome in record.outcomes:
        producers.replay(producer, seq, outcome)
    for kept in record.answers:
        sessions.replay(kept.client_id, kept.answer, record.number)

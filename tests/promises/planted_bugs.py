"""Bugs that break a promise each, planted in the engine of this process: the model must notice every one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from env_server.events.watches import WatchHub
from env_server.idempotency.producers import Producers
from env_server.leases.leases import Kept, Leases
from env_server.model.operations import Code
from env_server.model.watching import WatchSpec
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.frames.execution import Execution
from env_server.pipeline.lease_sweep import LeaseSweep
from env_server.state_tree import positions, replay
from env_server.state_tree.borders import Borders
from env_server.state_tree.tree import Tree
from env_server.storage import log_reading
from env_server.storage.memory import MemoryCommitLog
from env_server.subscriptions.subscriptions import Subscriptions


def forget_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producers, "keep", lambda self, producer, seq, outcome: None)
    monkeypatch.setattr(Execution, "_is_repeated", lambda self, run, index, producer, seq: False)


def publish_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Commits._seal

    def early(self: Any) -> None:
        group = self.group
        seal(self)
        if self._in_flight and self._in_flight[-1] is group:
            self._published(group)

    published: set[int] = set()
    durable = Commits.durable

    def late(self: Any, number: int) -> None:
        told, self._published = self._published, lambda group: published.add(group.number)
        durable(self, number)
        self._published = told

    monkeypatch.setattr(Commits, "_seal", early)
    monkeypatch.setattr(Commits, "durable", late)


def answer_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Commits, "answer", lambda self, deliver, answer: deliver(answer))


def reorder_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    run_frame = Execution.run

    def swapped(self: Any, run: Any, only: Any = None) -> None:
        frame = run.frame
        last: dict[Any, int] = {}
        arguments = list(frame.arguments)
        for index, (place, key, code) in enumerate(zip(frame.path, frame.keys, frame.codes, strict=True)):
            if code in (Code.SET, Code.ADD, Code.APPEND):
                before = last.setdefault((place, key, code), index)
                arguments[before], arguments[index] = arguments[index], arguments[before]
        frame.arguments = arguments
        run_frame(self, run, only)

    monkeypatch.setattr(Execution, "run", swapped)


def forget_a_kept_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    from env_server.idempotency.sessions import Sessions

    monkeypatch.setattr(Sessions, "kept", lambda self, client_id, seq: None)


def tear_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tree, "_roll_back", lambda self, *mark: setattr(self, "journal", None))


def resume_one_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    open_watch = WatchHub.open

    def late(self: Any, spec: WatchSpec) -> Any:
        return open_watch(self, replace(spec, from_revision=spec.from_revision + (spec.from_revision > 0)))

    monkeypatch.setattr(WatchHub, "open", late)


def resume_one_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    open_watch = WatchHub.open

    def early(self: Any, spec: WatchSpec) -> Any:
        return open_watch(self, replace(spec, from_revision=max(1, spec.from_revision - 1)))

    monkeypatch.setattr(WatchHub, "open", early)


def report_before_it_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without fsync: what was reported is on the disk a little later."""

    def commit(self: Any) -> None:
        groups, self._pending = self._pending, []

        def write() -> None:
            if not self._ended:
                for group in groups:
                    self._write(group)
                self._trim(groups[-1])

        if groups:
            self._clock.call_soon(write)
            self._call(self._on_durable, groups[-1].number)

    monkeypatch.setattr(MemoryCommitLog, "_commit", commit)


def lose_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and cursors are kept in memory and nowhere else."""
    monkeypatch.setattr(Tree, "note_fact", lambda self, kind, key, value: None)


def lose_a_fact_in_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest fact of a record is forgotten when that is replayed."""
    read = log_reading.decode_record

    def forgetful(*arguments: Any) -> Any:
        changes = read(*arguments)
        if changes.facts:
            changes.facts.pop()
        return changes

    monkeypatch.setattr(log_reading, "decode_record", forgetful)


def acknowledge_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that fails leaves its acknowledgement done."""
    acknowledge = Subscriptions.acknowledge

    def at_once(self: Any, asked: Any) -> Any:
        ledger = self._ledger
        journal, ledger._tree.journal = ledger._tree.journal, None
        try:
            return acknowledge(self, asked)
        finally:
            ledger._tree.journal = journal

    monkeypatch.setattr(Subscriptions, "acknowledge", at_once)


def end_leases_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keep-alive that gives no time."""
    monkeypatch.setattr(
        Leases,
        "keep",
        lambda self, ids: Kept([one for one in ids if self.lives(one)], [one for one in ids if not self.lives(one)]),
    )


def leave_what_lived_under_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseSweep, "add", lambda self, lease: None)


def lose_crossings_of_those_that_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    cross = Borders.cross

    def forgetful(self: Any, index: Any, key: Any, before: Any, after: Any, limits: Any, count: Any) -> Any:
        told = cross(self, index, key, before, after, limits, count)
        return told if after is not None else told[:1]

    monkeypatch.setattr(Borders, "cross", forgetful)


def leave_who_is_where_as_a_failed_transaction_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_move_back", lambda node, key, old: node.entries.update({key: old}))


def replay_moves_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = replay._moved
    monkeypatch.setattr(replay, "_moved", lambda entry, *move: moved(entry, *move)._replace(position=entry.position))


PLANTS = [
    forget_producers,
    publish_before_commit,
    answer_before_durable,
    reorder_a_key,
    forget_a_kept_frame,
    tear_a_transaction,
    resume_one_too_late,
    resume_one_too_early,
    report_before_it_is_on_the_disk,
    lose_facts,
    lose_a_fact_in_recovery,
    acknowledge_apart,
    end_leases_early,
    leave_what_lived_under_a_lease,
    lose_crossings_of_those_that_are_deleted,
    leave_who_is_where_as_a_failed_transaction_had_it,
    replay_moves_as_nothing,
]

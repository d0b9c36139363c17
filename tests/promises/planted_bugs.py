"""Bugs that break a promise each, planted in the engine of this process: the model must notice every one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from env_server.events.watches import WatchHub
from env_server.idempotency.producers import Producers
from env_server.model.operations import Code
from env_server.model.watching import WatchSpec
from env_server.pipeline.commits import Commits
from env_server.pipeline.execution import Execution
from env_server.storage.memory import MemoryCommitLog


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
    from env_server.state_tree.tree import Tree

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

        if groups:
            self._clock.call_soon(write)
            self._call(self._on_durable, groups[-1].number)

    monkeypatch.setattr(MemoryCommitLog, "_commit", commit)


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
]

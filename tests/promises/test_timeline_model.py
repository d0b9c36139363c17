"""Clocks and timers against a model made of lists, with crashes at any step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.stateful import run_state_machine_as_test

from env_server.model.changes import FactKind
from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.pipeline.timekeeping.timers import Timers
from env_server.state_tree.tree import Tree
from tests.promises.timeline_machine import TimelineMachine


def run(seed: int, examples: int, steps: int = 30, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """Runs the machine; raises what it finds."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine = hypothesis_seed(seed)(type("SeededMachine", (TimelineMachine,), {}))
    run_state_machine_as_test(machine, settings=chosen)


def test_clocks_and_timers_do_what_the_model_says(seed: int) -> None:
    run(seed, 100)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_clocks_and_timers_do_what_the_model_says_for_long(seed: int) -> None:
    run(seed, int(os.environ.get("ECUMENE_MODEL_EXAMPLES", "2000")), 50)


# ---- the test of the test: each of these must be noticed ----


def timers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of a timer is not stored."""
    note = Tree.note_fact

    def lose(self: Tree, kind: FactKind, key: str, value: bytes | None, revision: int = 0) -> None:
        if kind is not FactKind.TIMER or value is None:
            note(self, kind, key, value, revision)

    monkeypatch.setattr(Tree, "note_fact", lose)


def failed_transactions_leave_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that fails takes no timer back."""
    monkeypatch.setattr(Timers, "_journal", lambda *_: None)


def ways_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves undone stays undone."""
    add = Clocks._add

    def add_quietly(self: Clocks, timeline: Any) -> None:
        add(self, timeline)
        self.by_number[timeline.number] = timeline
        if timeline.state.target_ns is not None:
            timeline.state = type(timeline.state)(timeline.state.now_ns, paused=timeline.state.paused)

    monkeypatch.setattr(Clocks, "_add", add_quietly)


PLANTS = [
    timers_are_forgotten,
    failed_transactions_leave_timers,
    ways_are_given_up,
]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, LookupError)):
        run(seed, 10_000, 20, (Phase.generate,))  # it ends with the first that is found

"""Clocks and timers against a model made of lists, with crashes at any step."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.stateful import run_state_machine_as_test

from tests.promises.timeline_machine import TimelineMachine


def run(seed: int, examples: int, steps: int = 30) -> None:
    """Runs the machine; raises what it finds."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine = hypothesis_seed(seed)(type("SeededMachine", (TimelineMachine,), {}))
    run_state_machine_as_test(machine, settings=chosen)


def test_clocks_and_timers_do_what_the_model_says(seed: int) -> None:
    run(seed, 150)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_clocks_and_timers_do_what_the_model_says_for_long(seed: int) -> None:
    run(seed, int(os.environ.get("ECUMENE_MODEL_EXAMPLES", "2000")), 50)

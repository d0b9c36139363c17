"""The engine against the model: any ops, crashes at any step, repetitions, leases, and a watch that resumes over all.

Promises P1, P4, P5, P7 to P11 in one machine. The planted bugs at the end prove that it would notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.stateful import run_state_machine_as_test

from env_server.model.errors import WorldError
from tests.promises.living_machine import LivingMachine
from tests.promises.planted_bugs import PLANTS


def run(seed: int, examples: int, steps: int = 30, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """Runs the machine; raises what it finds."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=phases,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine = hypothesis_seed(seed)(type("SeededMachine", (LivingMachine,), {}))
    run_state_machine_as_test(machine, settings=chosen)


def test_the_engine_does_what_the_model_says(seed: int) -> None:
    run(seed, 150)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_the_engine_does_what_the_model_says_for_long(seed: int) -> None:
    run(seed, int(os.environ.get("ECUMENE_MODEL_EXAMPLES", "2000")), 50)


# ---- the test of the test: each of these must be noticed ----


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, LookupError, WorldError)):  # it may also stumble over what it broke
        run(seed, 10_000, 15, (Phase.generate,))  # it ends with the first that is found

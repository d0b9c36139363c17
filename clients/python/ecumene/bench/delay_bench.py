"""What delays others, part of `ecumene bench env`: 99th percentiles of writes, over those of an idle server.

Both are of the same server in the same run, in turn: only their ratio means anything on a machine with other work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace

from ecumene.bench.delay_load import DelayCase
from ecumene.bench.processes import run_child
from ecumene.bench.results import Goal, Result, take_median
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.delay_load"
WORK_TIMEOUT_S = 300.0
HELD = DelayCase("held", "", phases=5, writes=1_000, hold_ms=1_000.0)
SAVING = DelayCase("saving", "", phases=3, writes=1_000, entries=1_000_000, changed=300_000)
GOAL = Goal(at_most=2)

Note = Callable[[str], None]


async def measure_delays(behaviour: str, *, repeats: int, is_quick: bool, note: Note) -> list[Result]:
    """`held_key_p99_ratio`, the worse of both sessions, and `saving_p99_ratio`."""
    held_case, saving_case = HELD, SAVING
    if is_quick:
        held_case = replace(HELD, phases=1, writes=200, hold_ms=100.0)
        saving_case = replace(SAVING, phases=1, writes=200, entries=20_000, changed=10_000)
    held: list[dict[str, float]] = []
    saving: list[dict[str, float]] = []
    for repeat in range(repeats):
        note(f"held_key_p99_ratio, sample {repeat + 1}")
        held.append(await _run(held_case, behaviour))
        note(f"saving_p99_ratio, sample {repeat + 1}")
        saving.append(await _run(saving_case, behaviour))
    for one in held:
        one["same_session_ratio"] = one["same_p99_ms"] / one["idle_p99_ms"]
        one["other_session_ratio"] = one["other_p99_ms"] / one["idle_other_p99_ms"]
    ratios = [max(one["same_session_ratio"], one["other_session_ratio"]) for one in held]
    saving_ratios = [one["saving_p99_ms"] / one["idle_p99_ms"] for one in saving]
    return [
        Result("held_key_p99_ratio", take_median(ratios), "1", goal=GOAL, samples=ratios, details=_take_medians(held)),
        Result(
            "saving_p99_ratio",
            take_median(saving_ratios),
            "1",
            goal=GOAL,
            samples=saving_ratios,
            details=_take_medians(saving),
        ),
    ]


async def _run(case: DelayCase, behaviour: str) -> dict[str, float]:
    async with run_target("server", [behaviour]) as (address, _):
        document = json.dumps(asdict(replace(case, address=address)))
        async with run_child(LOAD_MODULE, [document]) as load:
            return await load.read(WORK_TIMEOUT_S)


def _take_medians(samples: list[dict[str, float]]) -> dict[str, float]:
    return {name: take_median([one[name] for one in samples]) for name in samples[0]}

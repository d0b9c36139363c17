"""The long tests in named parts: what ran, on which commit, with what result.

    make test-long                 every part, one after the other
    make test-long PART=kills      one of them

Results stand in docs/long-tests.md: a part whose code has changed since its commit has to run again.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "long-tests.md"

PARTS = {
    "engine": (
        "tests/promises/test_engine_model.py",
        "tests/promises/test_event_driven_model.py",
        "tests/promises/test_hearing_groups.py",
        "tests/promises/test_subscription_model.py",
        "tests/promises/test_forgotten_clients.py",
        "tests/promises/test_timeline_model.py",
        "tests/promises/test_crossings.py",
        "tests/promises/test_spatial_rows.py",
        "tests/faults/test_replay_equals_state.py",
        "tests/faults/test_listeners.py",
        "tests/unit/env_server",
    ),
    "server": (
        "tests/promises/test_server_model.py",
        "tests/promises/test_linearizability.py",
        "tests/promises/test_counting.py",
    ),
    "kills": (
        "tests/faults/test_server_kills.py",
        "tests/faults/test_verify_after_kills.py",
        "tests/faults/test_leases.py",
        "tests/faults/test_timers.py",
        "tests/faults/test_relaxed_durability.py",
    ),
    "takeovers": (
        "tests/faults/test_takeovers.py",
        "tests/faults/test_wakes.py",
        "tests/faults/test_waking_runs.py",
        "tests/faults/test_resume.py",
        "tests/faults/test_killed_experiments.py",
        "tests/faults/test_killed_runs.py",
        "tests/faults/test_killed_recordings.py",
        "tests/faults/test_ordered_runs.py",
        "tests/faults/test_run_digests.py",
    ),
    "subscriptions": ("tests/promises/test_subscriptions.py",),
    "storage": (
        "tests/faults/test_storage_faults.py",
        "tests/faults/test_damaged_files.py",
        "tests/faults/test_flipped_bits.py",
    ),
    "network": (
        "tests/faults/test_dropped_answers.py",
        "tests/faults/test_forgotten_clients.py",
        "tests/faults/test_lost_answers.py",
        "tests/faults/test_cut_links.py",
        "tests/faults/test_drains.py",
        "tests/faults/test_flapping_clients.py",
        "tests/faults/test_silent_servers.py",
        "tests/faults/test_cancelled_calls.py",
    ),
    "workflows": (
        "tests/promises/test_workflows.py",
        "tests/promises/test_workflow_scale.py",
        "tests/faults/test_workflow_kills.py",
        "tests/journey/test_workflow_examples.py",
    ),
    "validation": (
        "tests/validation/test_dilemma.py",
        "tests/validation/test_epidemic.py",
        "tests/validation/test_kills.py",
        "tests/validation/test_life.py",
        "tests/validation/test_opinion.py",
        "tests/validation/test_wealth.py",
    ),
    "spatial": (
        "tests/validation/test_evacuation.py",
        "tests/validation/test_flock.py",
        "tests/validation/test_segregation.py",
        "tests/validation/test_sugarscape.py",
        "tests/validation/test_town.py",
        "tests/validation/test_traffic.py",
        "tests/validation/test_wealth_grid.py",
    ),
    "experiments": ("tests/validation/test_paper_experiments.py",),
    "populations": (
        "tests/validation/test_census.py",
        "tests/validation/test_populations.py",
        "tests/validation/test_populations_in_runs.py",
    ),
    "backgrounds": ("tests/faults/test_killed_backgrounds.py",),
    "vllm": ("tests/foreign/vllm",),
    "rest": (
        "tests/faults/test_model_turns.py",
        "tests/unit/agent_runtime",
        "tests/fuzz",
        "tests/performance",
        "tests/repo",
    ),
}
"""Files and folders of each part; at most twenty minutes each on two idle cores."""

ENVIRONMENTS = {"vllm": ".venv-vllm"}
"""Parts that run in an environment of their own; without it their tests fail in this one, and say how to make it."""

_HEAD = """# The long tests

What `make test-long` has last told of each part, and the commit on which it ran. Written by it; two cores.

| part | commit | day | result | minutes |
|---|---|---|---|---|
"""
_ROW = re.compile(r"^\| (?P<part>[a-z]+) \|.*\|$", re.MULTILINE)
_SUMMARY = re.compile(r"\d+ (?:passed|failed|error|skipped|xfailed)[^\n]*?(?= in )")


class Run(NamedTuple):
    """What came of a part."""

    part: str
    commit: str
    day: str
    result: str
    minutes: float


def main(names: list[str]) -> int:
    """Runs the parts named, all when none is. Returns 1 when one of them failed."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.stderr.write(f"error: no part {', '.join(unknown)}; there are {', '.join(PARTS)}\n")
        return 2
    failed = False
    for name in names or PARTS:
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        run, passed = run_part(name)
        failed |= not passed
        PAGE.write_text(with_run(PAGE.read_text() if PAGE.exists() else "", run))
    return int(failed)


def run_part(name: str) -> tuple[Run, bool]:
    """Runs one part, its output passed on."""
    flags = os.environ.get("PYTEST_FLAGS", "").split()
    command = [find_python(name), "-m", "pytest", "-m", "long", *flags, *PARTS[name]]
    began = time.monotonic()
    environment = {**os.environ, "ECUMENE_TEST_LONG": "1"}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    last = ""
    for line in child.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        found = _SUMMARY.search(line)
        last = found[0] if found else last
    code = child.wait()
    minutes = (time.monotonic() - began) / 60
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Run(name, _commit(), day, last or f"exit code {code}", minutes), code == 0


def find_python(name: str) -> str:
    """The interpreter of a part."""
    own = ROOT / ENVIRONMENTS.get(name, "") / "bin" / "python"
    return str(own) if name in ENVIRONMENTS and own.exists() else sys.executable


def with_run(page: str, run: Run) -> str:
    """The page with a part's row replaced or added; rows in the order of PARTS."""
    rows = {found["part"]: found[0] for found in _ROW.finditer(page) if found["part"] in PARTS}
    rows[run.part] = f"| {run.part} | {run.commit} | {run.day} | {run.result} | {run.minutes:.1f} |"
    return _HEAD + "".join(f"{rows[part]}\n" for part in PARTS if part in rows)


def _commit() -> str:
    """The commit checked out; `+` = with changes besides."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE.relative_to(ROOT)}")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

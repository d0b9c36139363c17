"""Whatever happens to a run, it is recorded without being asked for, and every failure says what and where.

Case 38: nothing was saved unless somebody asked for it, and exceptions were shown as "Error."
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from ecumene.client.records import RunState, read_manifest

AGENTS = """\
from agent_runtime.agents.agent import Agent


class Clumsy(Agent):
    async def on_event(self, event, turn):
        if event.value["round"] == 2:
            raise KeyError("größe")
        turn.report(30)


class Unmade(Agent):
    def __init__(self, *arguments):
        raise RuntimeError("no profile for me")


class Leaving(Agent):
    async def on_event(self, event, turn):
        import sys
        sys.exit("I go")


class Silly(Agent):
    async def on_event(self, event, turn):
        turn.report({"not": {1, 2}})
"""
SPEC = """\
name: plain
population:
  groups:
    - {name: fine, agent: equilibrium, count: 2}
    - {name: own, agent: "clumsy:Clumsy", count: 3}
    - {name: unmade, agent: "clumsy:Unmade", count: 1}
    - {name: leaving, agent: "clumsy:Leaving", count: 1}
    - {name: silly, agent: "clumsy:Silly", count: 1}
game: {rounds: 2, deadline_s: 60}
"""
ASKING = 'surveys: [{name: s, questions: [{name: why, text: "Why?"}]}]\n'
BROKEN = [
    ("clumsy:Clumsy", "broken:Broken", "cannot load 'broken:Broken': SyntaxError: expected ':' (broken.py, line 1)"),
    ("clumsy:Clumsy", "clumsy:Nobody", "module 'clumsy' has no attribute 'Nobody'"),
    ("clumsy:Clumsy", "nowhere:Nobody", "No module named 'nowhere'"),
    ("clumsy:Clumsy", "falling:Falling", "ZeroDivisionError: division by zero"),
]


def play(folder: Path, spec: str) -> subprocess.CompletedProcess[str]:
    """As somebody does who gives nothing but a spec."""
    (folder / "clumsy.py").write_text(AGENTS, encoding="utf-8")
    (folder / "broken.py").write_text("class Broken(Agent)\n    pass\n", encoding="utf-8")
    (folder / "falling.py").write_text("Falling = 1 / 0\n", encoding="utf-8")
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    command = [sys.executable, "-m", "ecumene.cli", "run", "spec.yaml"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("more", ["", ASKING], ids=["plain", "asking"])
def test_all_is_recorded_unasked_and_each_failure_tells_its_cause(tmp_path: Path, more: str) -> None:
    done = play(tmp_path, SPEC + more)
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    assert read_manifest(directory).state is RunState.DONE
    for table in ("turns", "actions", "events"):
        assert ds.dataset(directory / table).count_rows() > 0, table
    for name in ("summary.json", "rounds.jsonl", "profiles.parquet", "rounds.png"):
        assert (directory / name).stat().st_size > 0
    turns = ds.dataset(directory / "turns").to_table(columns=["group", "round", "status", "reason"]).to_pylist()
    failed = Counter((row["group"], row["round"], row["status"]) for row in turns if row["status"] != "ok")
    rest = {(group, number, "error"): 1 for group in ("unmade", "leaving", "silly") for number in (1, 2)}
    assert failed == {("own", 2, "error"): 3, **rest}
    reasons = {row["group"]: row["reason"] for row in turns if row["status"] != "ok"}
    assert reasons["own"] == "KeyError: 'größe' (clumsy.py, line 7, in on_event)"
    assert reasons["unmade"] == "RuntimeError: no profile for me"
    assert "SystemExit" in reasons["leaving"] and "I go" in reasons["leaving"]
    assert reasons["silly"] == "ActionRefusedError: action 'report': dict has no form in a world"
    log = (directory / "logs" / "runtime.log").read_text(encoding="utf-8")
    assert 'clumsy.py", line 7, in on_event' in log and "KeyError: 'größe'" in log
    told = "error: KeyError: 'größe' (clumsy.py, line 7, in on_event) (3 turns)"
    assert "9 error" in done.stdout and told in done.stdout


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("there", "instead", "cause", "more"), [(*BROKEN[0], ""), *((*broken, ASKING) for broken in BROKEN)]
)
def test_a_run_that_cannot_begin_says_why_in_a_line_and_keeps_what_there_is(
    tmp_path: Path, there: str, instead: str, cause: str, more: str
) -> None:
    done = play(tmp_path, SPEC.replace(there, instead) + more)
    assert done.returncode in (1, 2)
    told = done.stderr.splitlines()[-1]
    assert told.startswith("ecumene: ") and "groups.own.agent" in told and cause in told
    assert "Traceback" not in done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    manifest = read_manifest(directory)
    assert manifest.state is RunState.FAILED and cause in manifest.note
    spec = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["spec"]
    assert spec["population"]["groups"][1]["agent"] == instead, "what was to be run can be read"

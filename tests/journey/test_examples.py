"""The examples run against a real server and say what they should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.services import ROOT, ServerProcess

SAYS = {
    "chat_room.py": ("members: ada, bob, eve", "ada hears:\n  1. ada", "eve hears:\n  2. bob: Eve"),
    "auction.py": ("sold to bob for ", "a late bid is refused: closed"),
    "market.py": ("sells", "money and corn before (1500, 100), after (1500, 100)"),
    "guess_game.py": ("round 1: ", "round 3: "),
    "contagion.py": ("hour 72: 35 well", "most were ill in hour 34: 154; 465 of 500 caught it"),
    "walkers.py": ("it is 18 o'clock", "the clock stands: nothing is due", "walker-2 is at ("),
    "haggling_agents.py": ("runtime: ready", "round 3: ", "turns: {'ok': 12}"),
}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_does_what_it_says(tmp_path: Path, name: str) -> None:
    with ServerProcess(tmp_path / "data") as server:
        command = [sys.executable, str(ROOT / "examples" / name), server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        for said in SAYS[name]:
            assert said in done.stdout, done.stdout
        assert server.stop() == 0


def test_the_contagion_goes_on_where_it_was_killed_and_draws_how_it_went(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        command = [sys.executable, str(ROOT / "examples" / "contagion.py"), server.address]
        for hour in (3, 41):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert any(line.startswith(f"hour {hour}:") for line in process.stdout)
                process.kill()
        plot = tmp_path / "contagion.png"
        done = subprocess.run([*command, "--plot", str(plot)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(f"{SAYS['contagion.py'][-1]}\nplot: {plot}\n")
        assert plot.read_bytes().startswith(b"\x89PNG")
        assert server.stop() == 0


WORKFLOWS = {"debate.py", "debate_local.py", "debate_distributed.py", "guess_agentscope.py", "guess_workflow.py"}
"""Run, or imported by what is run, in test_workflow_examples.py."""


PLAYERS = "trend_players.py"
"""A class of agents: what guess_trend.yaml names."""


def test_a_spec_with_a_class_of_ones_own_runs_in_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecumene.cli", "run", "guess_trend.yaml", "--out", str(tmp_path), "--json"]
    done = subprocess.run(command, cwd=ROOT / "examples", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["turns"] == {"ok": 500}
    (directory,) = tmp_path.iterdir()
    columns = ["group", "round", "value_double", "value_int"]
    rows = ds.dataset(directory / "actions").to_table(columns=columns).to_pylist()
    own = [row for row in rows if row["group"] == "trend"]
    said = [
        {row["value_double"] or row["value_int"] for row in own if row["round"] == number} for number in range(1, 6)
    ]
    # The second round follows the first winner, and later ones what both of the last were: the memory was kept.
    winners = [row["target"] for row in told["rounds"]]
    expected = [40.0, winners[0], *(winners[n] * winners[n] / winners[n - 1] for n in range(1, 4))]
    assert [max(one) for one in said] == pytest.approx(expected)
    assert {len(one) for one in said} == {1}


def test_every_program_among_the_examples_is_run() -> None:
    programs = {path.name for path in (ROOT / "examples").glob("*.py")}
    elsewhere = {"public_goods.py", "rumour.py"}  # with their specs, in test_own_experiments.py
    assert programs == set(SAYS) | WORKFLOWS | {PLAYERS} | elsewhere

"""A recorder that is killed, or whose disk is full, leaves only readable parts."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
from ecumene.client.records import ACTIONS, TURNS, list_parts

from agent_runtime.recording import Recorder

CHILD = '''
"""Records as fast as it can until it is killed; prints the highest turn known to be on disk."""
import sys
from pathlib import Path
from agent_runtime.recording import Recorder, RecordingFailedError, RecordingFullError, RecordingLimits

limits = RecordingLimits(part_age_ms_max=5, part_rows_max=2_000, pending_rows_max=20_000)
recorder = Recorder(Path(sys.argv[1]), run="r", source="w", limits=limits)
recorder.start()
turn = int(sys.argv[2])
fixed = {"observation_revision": 1, "wall_time_ns": 1, "status": "ok", "attempts": 0, "prompt_tokens": 0}
fixed |= {"completion_tokens": 0, "latency_ms": 0.5}
try:
    while True:
        for _ in range(10):
            turns = list(range(turn, turn + 100))
            agents = [f"agent-{number}" for number in turns]
            recorder.actions.extend(
                {"agent": agents, "turn": turns, "seq": 0, "action": "x", "path": "/g", "key": agents}
            )
            recorder.turns.extend({"agent": agents, "turn": turns, **fixed})
            turn += 100
        recorder.flush()
        print(turn - 1, flush=True)
        if len(sys.argv) > 3:
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
except RecordingFailedError as error:
    print(error, flush=True)
'''
KILLS = 4


def read_numbers(directory: Path, table: object) -> list[int]:
    """Turn numbers in all parts; raises if any part cannot be read."""
    assert table in (TURNS, ACTIONS)
    parts = list_parts(directory, table)  # type: ignore[arg-type]
    assert len(parts) == len(list((directory / table.name).iterdir()))  # type: ignore[attr-defined]
    return [number for part in parts for number in pq.read_table(part, columns=["turn"]).column(0).to_pylist()]


def start_child(directory: Path, *arguments: int) -> subprocess.Popen[str]:
    """A process that records until it is killed."""
    command = [sys.executable, "-c", CHILD, str(directory), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_kill_9_leaves_readable_parts_with_every_row_that_was_flushed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    turn = 1
    for _ in range(KILLS):
        with start_child(tmp_path, turn) as child:
            assert child.stdout is not None
            for _ in range(chance.randrange(1, 12)):
                flushed = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split()
        assert child.returncode == -signal.SIGKILL
        flushed = int(rest[-1]) if rest else flushed
        turns = read_numbers(tmp_path, TURNS)
        actions = read_numbers(tmp_path, ACTIONS)
        turn = max(turns) + 1
        assert max(turns) >= flushed
        assert sorted(turns) == list(range(1, turn))
        assert set(turns) <= set(actions)
        # The dead writer's actions without a turn would stand twice: start after them.
        turn = check_actions_and_fill(tmp_path, actions, turn)


def check_actions_and_fill(directory: Path, actions: list[int], turn: int) -> int:
    """Check that actions have no gap; record the turns that the killed writer owed; returns the next turn."""
    assert sorted(actions) == list(range(1, max(actions) + 1))
    owed = list(range(turn, max(actions) + 1))
    with Recorder(directory, run="r", source="w") as recorder:
        columns = {"observation_revision": 1, "wall_time_ns": 1, "status": "ok", "attempts": 0}
        tokens = {"prompt_tokens": 0, "completion_tokens": 0, "latency_ms": 0.5}
        recorder.turns.extend({"agent": "a", "turn": owed, **columns, **tokens})
    assert list((directory / ".staging").iterdir()) == []
    return max(actions) + 1


def test_a_disk_that_takes_no_more_is_heard_and_leaves_readable_parts(tmp_path: Path) -> None:
    with start_child(tmp_path, 1, 1_000) as child:
        assert child.stdout is not None
        output = child.stdout.read().splitlines()
    assert "File too large" in output[-1]
    assert output[-1].startswith("recording of ")
    flushed = max(int(line) for line in output[:-1])
    turns = read_numbers(tmp_path, TURNS)
    assert sorted(turns) == list(range(1, len(turns) + 1))
    assert len(turns) >= flushed

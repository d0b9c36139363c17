"""How far a part has come, against a list of what happened."""

from __future__ import annotations

import random

import numpy as np

from agent_runtime.turns.progress import EVERY_ROW, Progress

AGENTS = 5


def test_progress_is_what_a_list_of_all_turns_says(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        progress = Progress()
        given: list[tuple[int, int]] = []
        running: list[tuple[int, int]] = []
        revision = reached = through = 0
        for _ in range(30):
            step = chance.random()
            if step < 0.4:
                revision = max(revision + chance.randint(0, 2), reached + 1)
                rows = chance.sample(range(AGENTS), chance.randint(1, AGENTS))
                refused = chance.sample(rows, chance.randint(0, len(rows)))
                if chance.random() < 0.5:
                    left_out = np.array([row not in rows for row in range(AGENTS)])
                    whom = left_out if left_out.any() else None
                    progress.admit(revision, EVERY_ROW, len(rows) - len(refused), whom)
                elif chance.random() < 0.5:
                    progress.admit_rows(revision, np.array(rows, dtype=np.int32), len(rows) - len(refused))
                else:
                    rows, refused = rows[:1], [row for row in refused if row == rows[0]]
                    progress.admit(revision, rows[0], len(rows) - len(refused))
                given += [(revision, row) for row in rows]
                running += [(revision, row) for row in rows if row not in refused]
            elif step < 0.8 and running:
                ended = running.pop(chance.randrange(len(running)))
                progress.end(ended[0])
            else:
                reached = max(reached, revision)
                through = progress.through(reached)
                assert through == min([reached, *(begun - 1 for begun, _ in running)])
                counts = np.array([sum(row == of for _, of in given) for row in range(AGENTS)], dtype=np.int32)
                wanted = [sum(row == of and begun <= through for begun, of in given) for row in range(AGENTS)]
                assert progress.count_turns(counts, through).tolist() == wanted
            assert progress.is_idle == (not running)


def test_turns_are_counted_from_either_end() -> None:
    progress = Progress()
    for revision in range(100_000):
        progress.admit(revision, revision % AGENTS, 1)
    counts = np.full(AGENTS, 20_000, dtype=np.int32)
    assert progress.through(200_000) == -1
    assert progress.count_turns(counts, 49_999).tolist() == [10_000] * AGENTS
    for revision in range(100_000):
        progress.end(revision)
    assert progress.through(200_000) == 200_000
    assert progress.count_turns(counts, 200_000).tolist() == counts.tolist()

"""The agents of a part in columns."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from agent_runtime.agents.cohort import RANKED_ROWS, Cohort


@pytest.mark.parametrize("count", [0, 1, 5, RANKED_ROWS + 1])
def test_rows_are_sorted_by_their_ids_few_as_many(seed: int, count: int) -> None:
    chance = random.Random(seed)
    ids = [f"{chance.choice('aZ_.-9')}{number}" for number in range(2 * RANKED_ROWS)]
    chance.shuffle(ids)
    cohort = Cohort(pa.table({"agent_id": ids}))
    rows = np.array(chance.sample(range(len(ids)), count), dtype=np.int32)
    for _ in range(2):
        assert [ids[row] for row in cohort.sort_rows(rows)] == sorted(ids[row] for row in rows)
        cohort.sort_rows(np.arange(len(ids), dtype=np.int32))

"""Columns of times as agents' code gives them: one for each agent, or nothing for who is not to be woken."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agent_runtime.model.wakes import NEVER_NS


def read_times(column: Any, count: int) -> npt.NDArray[np.int64]:
    """Nanoseconds, NEVER_NS where there is none; a column that is None has none at all.

    Raises ValueError: they are no times, or not as many as agents.
    """
    if column is None:
        return np.full(count, NEVER_NS, dtype=np.int64)
    if not isinstance(column, np.ndarray):
        cells = column.tolist() if hasattr(column, "tolist") else list(column)
        column = np.asarray([NEVER_NS if at_ns is None else at_ns for at_ns in cells])
    if column.shape != (count,):
        raise ValueError(f"{column.size} times for {count} agents")
    if column.dtype.kind != "i":
        raise ValueError("times are whole numbers of 64 bits, in nanoseconds")
    return column.astype(np.int64, copy=False)

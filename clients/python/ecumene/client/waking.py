"""What runs leave in their world of agents that wake by a clock: where it stands, and how it is called.

    /runtime/runs/<run>/parts/<part>          there while somebody hosts the part
    /runtime/runs/<run>/cursors/<part>        there once somebody has
    /runtime/runs/<run>/wakes/<part>          {"clock": where its timer stands} as config
    /runtime/runs/<run>/wakes/<part>/<agent>  {"wakes": [[at_ns], [at_ns, name], [at_ns, name, payload]], "woke_ns": 0}
    wakes.<run>:<part>                        the part's timer, and its entry among the participants of a clock

`wakes` are those that have not had their turn; `woke_ns` is the time of the wake whose turn wrote this, null if
something else woke the agent.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

RUNS = "/runtime/runs"
TIMERS = "wakes."
"""Names of timers that runtimes set begin with it; they wake nobody but whom they are for."""
_NAME_BYTES_MAX = 128
_MARK = ":"
"""Stands in no name of a run or of a part."""
_HASHED = re.compile(re.escape(TIMERS) + "[0-9a-f]{48}")


def parts_path(run: str) -> str:
    """Where the parts of a run stand that somebody hosts."""
    return f"{RUNS}/{run}/parts"


def cursors_path(run: str) -> str:
    """Where all parts of a run stand that were ever hosted."""
    return f"{RUNS}/{run}/cursors"


def wakes_path(run: str) -> str:
    """Where the wakes of its agents stand, an environment a part."""
    return f"{RUNS}/{run}/wakes"


def name_timer(run: str, part: str) -> str:
    """The timer of a part: unique in the world, as runs are. One that would be too long is a hash."""
    name = f"{TIMERS}{run}{_MARK}{part}"
    return name if len(name) <= _NAME_BYTES_MAX else TIMERS + blake2b(name.encode(), digest_size=24).hexdigest()


def split_timer(name: str) -> tuple[str, str] | None:
    """The run and the part whose timer is called so; None for a hash, and for what is no such name."""
    run, mark, part = name.removeprefix(TIMERS).partition(_MARK)
    return (run, part) if mark and name.startswith(TIMERS) else None


def is_hashed_timer(name: str) -> bool:
    """Whether it is the timer of a part whose name would have been too long."""
    return _HASHED.fullmatch(name) is not None


def find_first_wake(document: Any) -> int | None:
    """The first time that an agent wants; None = none, also in what no runtime has written."""
    try:
        return min((int(wake[0]) for wake in document["wakes"]), default=None)
    except (TypeError, KeyError, IndexError, ValueError):
        return None

"""Where an event-driven clock goes when all its participants are idle."""

from typing import NamedTuple


class Jump(NamedTuple):
    """Where it would go."""

    to_ns: int
    is_held: bool
    """The clock above does not let it."""


def plan_jump(now_ns: int, due_ns: int | None, wake_ns: int | None, bound_ns: int | None) -> Jump | None:
    """The next jump of a clock that shows `now_ns`; None = nothing is due, and it stands.

    `due_ns` is when its first timer is due, `wake_ns` when the first participant wants to be woken. A wake that has
    passed is due now: it is told once more what time it is. The clock does not go beyond `bound_ns`, nor back.
    """
    times = [ns for ns in (due_ns, wake_ns) if ns is not None]
    if not times:
        return None
    to_ns = max(now_ns, min(times))
    return Jump(to_ns, bound_ns is not None and to_ns > max(now_ns, bound_ns))

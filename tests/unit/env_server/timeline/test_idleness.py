"""Where an event-driven clock goes when all are idle."""

from __future__ import annotations

import pytest

from env_server.timeline.idleness import Jump, plan_jump


@pytest.mark.parametrize(
    ("due_ns", "wake_ns", "bound_ns", "jump"),
    [
        (None, None, None, None),
        (None, None, 500, None),
        (150, None, None, Jump(150, False)),
        (None, 150, None, Jump(150, False)),
        (150, 140, None, Jump(140, False)),
        (150, 160, None, Jump(150, False)),
        (150, None, 150, Jump(150, False)),
        (151, None, 150, Jump(151, True)),
        (None, 90, None, Jump(100, False)),
        (90, None, 20, Jump(100, False)),
        (None, 100, 20, Jump(100, False)),
        (None, 101, 20, Jump(101, True)),
    ],
)
def test_it_goes_to_what_is_due_first_never_back_and_not_beyond_its_bound(
    due_ns: int | None, wake_ns: int | None, bound_ns: int | None, jump: Jump | None
) -> None:
    assert plan_jump(100, due_ns, wake_ns, bound_ns) == jump

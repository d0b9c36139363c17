"""What control does to a clock by itself."""

from __future__ import annotations

import pytest

from env_server.model.errors import OutOfRange, WorldError
from env_server.model.operations import ClockAction, ControlClock
from env_server.model.timelines import ClockDeclaration, ClockMode, ClockState, Timer
from env_server.model.values import INT_MAX
from env_server.timeline.control import arrive, check_rate, check_time, plan_control
from env_server.timeline.timeline import Timeline


def plan(
    action: ClockAction,
    ns: int = 0,
    rate: float = 0.0,
    *,
    mode: ClockMode = ClockMode.MANUAL,
    due: int | None = None,
    bound: int | None = None,
    **state: object,
) -> ClockState | None:
    timeline = Timeline(1, ClockDeclaration(mode), ClockState(100, **state), 0)  # type: ignore[arg-type]
    if due is not None:
        timeline.put((1, "t"), Timer("t", due, 1))
    return plan_control(timeline, 100, bound, ControlClock(action, ns, rate), "/town")


def test_a_way_without_a_timer_on_it_is_gone_at_once_and_another_one_is_not() -> None:
    assert plan(ClockAction.ADVANCE_BY, 20) == ClockState(120)
    assert plan(ClockAction.ADVANCE_BY, 20, due=121) == ClockState(120)
    assert plan(ClockAction.ADVANCE_BY, 20, due=120) == ClockState(100, target_ns=120)
    assert plan(ClockAction.ADVANCE_TO, 120, bound=119) == ClockState(100, target_ns=120)


def test_a_skip_jumps_if_it_is_let() -> None:
    assert plan(ClockAction.SKIP_TO, 120) == ClockState(120)
    assert plan(ClockAction.SKIP_TO, 120, due=110) == ClockState(120, target_ns=120, skipping=True)
    assert plan(ClockAction.SKIP_TO, 120, bound=119) == ClockState(100, target_ns=120, skipping=True)
    assert plan(ClockAction.SKIP_TO, 120, mode=ClockMode.REALTIME) == ClockState(120)


def test_a_step_goes_to_the_first_timer() -> None:
    assert plan(ClockAction.STEP) is None
    assert plan(ClockAction.STEP, due=110) == ClockState(100, target_ns=110)
    assert plan(ClockAction.STEP, due=90, paused=True) == ClockState(100, paused=True, target_ns=100)


def test_what_is_asked_on_the_way_comes_after_it() -> None:
    assert plan(ClockAction.ADVANCE_BY, 5, due=110, target_ns=120) == ClockState(100, target_ns=125)
    assert plan(ClockAction.ADVANCE_TO, 120, due=110, target_ns=120) is None
    skip = plan(ClockAction.SKIP_TO, 125, bound=110, target_ns=120, skipping=True)
    assert skip == ClockState(100, target_ns=125, skipping=True)
    assert plan(ClockAction.PAUSE, target_ns=120, skipping=True) == ClockState(100, paused=True)
    assert plan(ClockAction.PAUSE, target_ns=120, paused=True) == ClockState(100, paused=True), "a step ends, too"


def test_what_changes_nothing_has_no_effect() -> None:
    assert plan(ClockAction.ADVANCE_BY, 0) is plan(ClockAction.SKIP_TO, 100) is None
    assert plan(ClockAction.PAUSE, paused=True) is plan(ClockAction.RESUME) is None
    assert plan(ClockAction.SET_RATE, rate=1.0, mode=ClockMode.REALTIME) is None
    assert plan(ClockAction.RESUME, paused=True) == ClockState(100)


@pytest.mark.parametrize(
    ("target_ns", "where"), [(None, "at 100 ns already:"), (120, "at 100 ns, on its way to 120 ns, already:")]
)
def test_where_a_clock_is_already_is_told_as_it_is(target_ns: int | None, where: str) -> None:
    with pytest.raises(OutOfRange, match=where):
        plan(ClockAction.SKIP_TO, 99, target_ns=target_ns)


@pytest.mark.parametrize(
    ("reason", "asked"),
    [
        ("TIME_PASSED", {"action": ClockAction.ADVANCE_TO, "ns": 99}),
        ("TIME_PASSED", {"action": ClockAction.SKIP_TO, "ns": 119, "target_ns": 120}),
        ("CLOCK_PAUSED", {"action": ClockAction.ADVANCE_BY, "ns": 1, "paused": True}),
        ("CLOCK_PAUSED", {"action": ClockAction.SKIP_TO, "ns": 200, "paused": True}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.SKIP_TO, "ns": 200, "target_ns": 120}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.SKIP_TO, "ns": 120, "target_ns": 120}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.ADVANCE_BY, "ns": 1, "target_ns": 120, "skipping": True}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.STEP, "due": 130, "target_ns": 120}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.STEP, "paused": True, "target_ns": 120}),
        ("CLOCK_ON_ITS_WAY", {"action": ClockAction.STEP, "stepping": True, "mode": ClockMode.EVENT_DRIVEN}),
        (
            "CLOCK_ON_ITS_WAY",
            {"action": ClockAction.SKIP_TO, "ns": 200, "stepping": True, "mode": ClockMode.EVENT_DRIVEN},
        ),
        ("CLOCK_MODE_MISMATCH", {"action": ClockAction.ADVANCE_BY, "ns": 1, "mode": ClockMode.REALTIME}),
        ("CLOCK_MODE_MISMATCH", {"action": ClockAction.SET_RATE, "rate": 2.0}),
        ("INVALID_FIELD", {"action": ClockAction.SET_RATE, "rate": 0.0, "mode": ClockMode.REALTIME}),
        ("INVALID_FIELD", {"action": ClockAction.ADVANCE_BY, "ns": -1}),
        ("INVALID_FIELD", {"action": ClockAction.ADVANCE_BY, "ns": INT_MAX}),
        ("INVALID_FIELD", {"action": ClockAction.SKIP_TO, "ns": INT_MAX + 1}),
    ],
)
def test_what_cannot_be_is_refused(reason: str, asked: dict[str, object]) -> None:
    with pytest.raises(WorldError) as refused:
        plan(**asked)  # type: ignore[arg-type]
    assert refused.value.reason.name == reason


def test_rates_and_times_are_what_they_should_be() -> None:
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(WorldError):
            check_rate(rate, "rate")
    check_rate(1e-300, "rate")
    with pytest.raises(TypeError):
        check_time(1.0, "at_ns")  # type: ignore[arg-type]
    assert arrive(ClockState(130, target_ns=120, skipping=True)) == ClockState(130)

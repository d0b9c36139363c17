"""Deadlines of acknowledgements."""

import pytest

from env_server.clocks.manual_clock import ManualClock
from env_server.subscriptions.deadline import AckDeadline


class Held:
    """A deadline of 10 s on a clock of its own."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.outstanding = True
        self.passed: list[int] = []
        self.deadline = AckDeadline(
            self.clock, 10_000, lambda: self.outstanding, lambda: self.passed.append(self.clock.monotonic_ns())
        )


def test_it_passes_once_at_its_time() -> None:
    held = Held()
    held.deadline.renew()
    held.clock.advance(9.999)
    assert held.passed == []
    held.clock.advance(100)
    assert held.passed == [10_000_000_000]


def test_given_anew_it_passes_later() -> None:
    held = Held()
    held.deadline.renew()
    for _ in range(5):
        held.clock.advance(6)
        held.deadline.renew()
    held.clock.advance(9.9)
    assert held.passed == []
    held.clock.advance(0.2)
    assert held.passed == [40_000_000_000]


def test_it_does_not_pass_while_nothing_is_outstanding() -> None:
    held = Held()
    held.deadline.renew()
    held.outstanding = False
    held.clock.advance(60)
    assert held.passed == []
    held.outstanding = True
    held.deadline.renew()
    held.clock.advance(10)
    assert held.passed == [70_000_000_000]


def test_it_ends() -> None:
    held = Held()
    held.deadline.renew()
    held.deadline.stop()
    held.clock.advance(60)
    assert held.passed == []


class StalledClock(ManualClock):
    """Time goes on by itself while nothing runs."""

    stalled_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.stalled_ns


@pytest.mark.parametrize(("stalled_ns", "passes"), [(900_000_000, True), (5_000_000_000, False)])
def test_a_process_that_stood_still_gives_the_whole_time_again(stalled_ns: int, passes: bool) -> None:
    clock = StalledClock()
    held = Held(clock)
    held.deadline.renew()
    clock.advance(9.9)
    clock.stalled_ns = stalled_ns
    clock.advance(0.2)
    assert bool(held.passed) is passes
    clock.advance(9.8)
    assert bool(held.passed) is passes
    clock.advance(0.3)
    assert len(held.passed) == 1

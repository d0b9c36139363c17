"""The participants of one event-driven clock: what each must have dealt with before the clock may go on, and has.

A participant is idle when its last report says so and has consumed every event that it hears. What it hears is counted
by one `Heard` for all who hear the same, so that an event costs no work for each of them; whether all are idle is found
by going round, from the one that was not: a report costs one look, as long as somebody else holds the clock.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from env_server.model.clock_reports import ClockReport, Reporter


class Heard:
    """What some participants hear."""

    __slots__ = ("last", "problem")

    def __init__(self, problem: str = "") -> None:
        #: Revision of the last event that they hear.
        self.last = 0
        #: Why nobody can say what they hear, nor report for them; "" = one can.
        self.problem = problem


class Participant:
    """One of them: an entry, and what was reported for it."""

    __slots__ = ("heard", "key", "report", "reporter", "set_revision")

    def __init__(self, key: str, set_revision: int, heard: Heard) -> None:
        self.key = key
        #: In which its entry was set last.
        self.set_revision = set_revision
        self.heard = heard
        self.report: ClockReport | None = None
        self.reporter: Reporter | None = None


class Participants:
    """All of one clock, by key."""

    def __init__(self, floor: int) -> None:
        #: Up to this revision nobody knows who heard what: all have to consume it.
        self._floor = floor
        self._by_key: dict[str, Participant] = {}
        #: The same in a list, for going round; built anew when one comes or goes.
        self._round: list[Participant] | None = None
        self._at = self._idle_in_a_row = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Participant]:
        return iter(self._by_key.values())

    def get(self, key: str) -> Participant | None:
        """The participant of that key."""
        return self._by_key.get(key)

    def put(self, participant: Participant) -> Participant | None:
        """It takes part from now on; returns the one of that key before."""
        before = self._by_key.get(participant.key)
        self._by_key[participant.key] = participant
        self._round = None
        return before

    def drop(self, key: str) -> Participant | None:
        """It takes part no more; returns it."""
        self._round = None
        return self._by_key.pop(key, None)

    def report(self, participant: Participant, report: ClockReport | None, reporter: Reporter | None) -> None:
        """Its last report, instead of the one before; None = there is none."""
        participant.report, participant.reporter = report, reporter
        self.stir()

    def raise_floor(self, revision: int) -> None:
        """All have to consume this revision."""
        self._floor = max(self._floor, revision)
        self.stir()

    def stir(self) -> None:
        """Some may not be idle any more."""
        self._idle_in_a_row = 0

    def owed(self, participant: Participant) -> int:
        """The revision that it has to consume."""
        return max(self._floor, participant.set_revision, participant.heard.last)

    def is_idle(self, participant: Participant) -> bool:
        """Whether it has nothing to do before it wakes."""
        report = participant.report
        return report is not None and not report.busy and report.consumed_revision >= self.owed(participant)

    @property
    def all_idle(self) -> bool:
        """Whether nobody holds the clock."""
        if self._round is None:
            self._round, self._at, self._idle_in_a_row = list(self._by_key.values()), 0, 0
        everybody = self._round
        while self._idle_in_a_row < len(everybody):
            if not self.is_idle(everybody[self._at]):
                return False
            self._at = (self._at + 1) % len(everybody)
            self._idle_in_a_row += 1
        return True

    @property
    def earliest_wake_ns(self) -> int | None:
        """When the first of them wants to be woken, as was reported."""
        wakes = (one.report.earliest_wake_ns for one in self if one.report is not None)
        return min((wake for wake in wakes if wake is not None), default=None)

    def describe_holders(self, count_max: int, may_be_told: Callable[[Heard], bool]) -> list[str]:
        """Who holds the clock and why, for people; at most so many of them.

        `may_be_told` says whether those people see all that may be heard there: else they are not told when that was.
        """
        holders = (f"{one.key}: {self._describe(one, may_be_told)}" for one in self if not self.is_idle(one))
        told = list(islice(holders, count_max))
        more = sum(1 for _ in holders)
        return [*told, f"and {more} more"] if more else told

    def _describe(self, participant: Participant, may_be_told: Callable[[Heard], bool]) -> str:
        report = participant.report
        if report is None:
            return participant.heard.problem or "no report"
        if report.busy:
            return "busy"
        if not may_be_told(participant.heard):
            return "has not consumed all that it hears"
        return f"has consumed {report.consumed_revision} of {self.owed(participant)}"

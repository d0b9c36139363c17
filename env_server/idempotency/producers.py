"""Producers: the last number of each and what came of it.

The commonest outcome, a plain write, is kept as three numbers: a million producers are ordinary.
"""

from collections.abc import Callable, Iterator

from env_server.model.errors import Exhausted, OutOfRange, Reason
from env_server.model.frames import Outcome, Written
from env_server.model.limits import Limits
from env_server.model.ordering import in_slices
from env_server.model.ports import ProducerMark


class Producers:
    """Marks of one world. Numbers of a producer rise; only the last one's outcome is kept."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Public for the hot path, which reads and writes marks of plain writes itself.
        self.marks: dict[str, ProducerMark] = {}
        self.unsaved: dict[str, None] = {}
        #: Ops that wait or await, by (producer, seq), and what to tell those who asked the same meanwhile.
        self.in_flight: dict[tuple[str, int], list[Callable[[Outcome], None]]] = {}

    def repeated(self, producer: str, seq: int, mark: ProducerMark) -> Outcome:
        """The first outcome of `seq`, given the producer's mark with a number >= seq.

        Raises:
            OutOfRange: SEQUENCE_PASSED when a later number was used since, so that the outcome is not kept any more.
        """
        last, outcome, version = mark
        if seq < last:
            raise OutOfRange(
                Reason.SEQUENCE_PASSED,
                f"producer {producer} has used {last} since {seq}",
                metadata={"producer": producer, "seq": str(seq), "last_seq": str(last)},
            )
        return Written(outcome, version) if type(outcome) is int else outcome  # type: ignore[return-value]

    def keep(self, producer: str, seq: int, outcome: Outcome) -> None:
        """Remembers an outcome, unless a later number of the producer was used meanwhile."""
        known = self.marks.get(producer)
        if known is not None and known[0] > seq:
            return
        if type(outcome) is Written and outcome.changed and outcome.value is None and not outcome.sequence:
            self.marks[producer] = (seq, outcome.revision, outcome.version)
        else:
            self.marks[producer] = (seq, outcome, 0)
        self.unsaved[producer] = None

    def forget(self, producer: str) -> None:
        """Drops the mark, from the state tables too."""
        if self.marks.pop(producer, None) is not None:
            self.unsaved[producer] = None

    def check_room(self) -> None:
        """Refuses a producer that is not known when there are too many.

        Raises:
            Exhausted: PRODUCER_QUOTA.
        """
        if len(self.marks) >= self._limits.producers_max:
            problem = f"the world keeps {len(self.marks)} producers, as many as it may"
            raise Exhausted.of(Reason.PRODUCER_QUOTA, "producers_max", self._limits.producers_max, problem)

    def load(self, producer: str, mark: ProducerMark) -> None:
        """Takes over a mark of the state tables."""
        self.marks[producer] = mark

    def replay(self, producer: str, seq: int, outcome: Outcome) -> None:
        """Takes over an outcome of the log, unless a later number is known."""
        self.keep(producer, seq, outcome)

    def round(self, slice_keys: Callable[[], int]) -> Iterator[dict[str, ProducerMark | None]]:
        """Slices of the marks that the state tables lack, each of `slice_keys()`, some empty while they are sorted."""
        taken, self.unsaved = self.unsaved, {}
        marks = self.marks
        for names in in_slices(taken, slice_keys):
            yield dict(zip(names, map(marks.get, names), strict=True))

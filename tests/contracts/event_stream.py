"""What a correct stream of deliveries is, as a function: for tests, fault runs and whoever doubts.

It knows the filter only by the history it is given, so that it can judge a stream that came over a network as well.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from env_server.model.watching import Delivery


class Seen(NamedTuple):
    """One event, reduced to what tells it from all others."""

    revision: int
    path: str
    key: str
    type: int
    version: int


def list_events(delivery: Delivery) -> list[Seen]:
    """The events of one step, in order."""
    changes = delivery.changes
    if changes is None:
        return []
    rows = range(len(changes)) if delivery.rows is None else delivery.rows
    return [
        Seen(
            changes.revisions[row],
            changes.places[changes.path[row]].path,
            changes.keys[row],
            changes.types[row],
            changes.versions[row],
        )
        for row in rows
    ]


def check_event_stream(
    deliveries: Iterable[Delivery], history: Iterable[Seen], after: int, keep: Callable[[Seen], bool] = lambda _: True
) -> int:
    """Holds a stream without initial state and conflation, begun after revision `after`, against the history.

    The stream is ordered, gap-free, free of duplicates and atomic per revision, and no mark passes an event: what was
    delivered after each step is exactly what matches in (after, through_revision], in the order of the history.
    Returns the last `through_revision`.

    Raises:
        AssertionError: at the first step that breaks the promise, saying how.
    """
    expected = [event for event in history if event.revision > after and keep(event)]
    through = after
    at = 0
    for number, delivery in enumerate(deliveries):
        assert delivery.through_revision >= through, (
            f"step {number}: through {delivery.through_revision} after {through}"
        )
        for event in list_events(delivery):
            assert at < len(expected), f"step {number}: {event} is not in the history"
            assert event == expected[at], f"step {number}: {event} where {expected[at]} is next"
            at += 1
        through = delivery.through_revision
        assert at == len(expected) or expected[at].revision > through, (
            f"step {number}: claims all through {through} but owes {expected[at]}"
        )
        assert at == 0 or expected[at - 1].revision <= through, (
            f"step {number}: delivered {expected[at - 1]} beyond through {through}"
        )
    return through

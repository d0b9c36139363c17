"""Several filters of one watch: it is told what any of them lets through, each row once, in order."""

from collections.abc import Sequence
from itertools import takewhile

from env_server.events.filters import Matcher
from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.model.names import ROOT
from env_server.model.views import View
from env_server.model.watching import Filter


class Alternatives:
    """Compiled filters, of which one has to match. Immutable; selects, and is found, as a Matcher is."""

    __slots__ = ("_matchers", "actor", "key", "region", "root", "types")

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self._matchers = tuple(matchers)
        self.root = _find_common([matcher.root for matcher in matchers])
        """The deepest environment that everything matching equals or lies below."""
        self.key = _shared([matcher.key for matcher in matchers])
        self.actor = _shared([matcher.actor for matcher in matchers])
        regions = {matcher.region for matcher in matchers}
        self.region = regions.pop() if len(regions) == 1 else b""
        types = [matcher.types for matcher in matchers]
        self.types: frozenset[int] = frozenset().union(*types) if all(types) else frozenset()

    def select(self, changes: Changes, first_row: int = 0) -> list[int] | None:
        """Indexes of the rows from `first_row` on that one of them selects, ascending; None = all rows of the group."""
        found: set[int] = set()
        for matcher in self._matchers:
            rows = matcher.select(changes, first_row)
            if rows is None:
                return None
            found.update(rows)
        return None if len(found) == len(changes.keys) else sorted(found)


AnyMatcher = Matcher | Alternatives


def compile_filters(asked: Filter, also: Sequence[Filter], limits: Limits, view: View | None) -> tuple[Matcher, ...]:
    """Each filter compiled. Raises as Matcher does, for any of them."""
    return tuple(Matcher(one, limits, view) for one in (asked, *also))


def join(matchers: Sequence[Matcher]) -> AnyMatcher:
    """What one of them lets through."""
    return matchers[0] if len(matchers) == 1 else Alternatives(matchers)


def _shared(values: Sequence[str]) -> str:
    """What all have in common; "" = nothing."""
    return values[0] if len(set(values)) == 1 else ""


def _find_common(roots: Sequence[str]) -> str:
    """The deepest path that all of them equal or lie below. By segments: "." and ".." are names like any other."""
    split = [root.split("/")[1:] if root != ROOT else [] for root in roots]
    alike = takewhile(lambda segments: len(set(segments)) == 1, zip(*split, strict=False))
    return ROOT + "/".join(segments[0] for segments in alike)

"""What the participants of event-driven clocks hear, found by the groups that it may concern.

Those of one clock that hear the same share one compiled filter, so that an event costs nothing for each of them.
"""

from collections.abc import Iterator

from env_server.events.alternatives import AnyMatcher, compile_filters, join
from env_server.events.routing import Routes
from env_server.model.changes import Changes
from env_server.model.errors import WorldError
from env_server.model.limits import Limits
from env_server.state_tree.tree import Tree
from env_server.timeline.hearing import Hearing, read_hearing
from env_server.timeline.line import Timeline
from env_server.timeline.participants import Heard, Participants


class Attended:
    """An event-driven clock with its participants."""

    __slots__ = ("hearings", "is_overfull", "line", "participants", "path", "place")

    def __init__(self, line: Timeline, path: str, floor: int) -> None:
        self.line = line
        self.path = path
        #: Where its participants are.
        self.place = line.declaration.participants_path or path
        self.participants = Participants(floor)
        self.hearings: dict[Hearing, Hears] = {}
        #: Whether there are more than may be, so that nobody takes part.
        self.is_overfull = False


class Hears(Heard):
    """What some participants of a clock hear, found by the groups that it may concern."""

    __slots__ = ("attended", "hearing", "matcher", "number", "users")

    def __init__(self, number: int, attended: Attended, hearing: Hearing, matcher: AnyMatcher) -> None:
        super().__init__()
        self.number = number
        self.attended = attended
        self.hearing = hearing
        self.matcher = matcher
        self.users = 0


class Hearings:
    """All that is heard in one world."""

    def __init__(self, tree: Tree, limits: Limits) -> None:
        self._tree = tree
        self._limits = limits
        self._routes: Routes[Hears] = Routes()
        self._made = 0

    def publish(self, changes: Changes) -> Iterator[Attended]:
        """Notes who hears anything of a durable group; tells the clocks of those, one perhaps more than once."""
        for hears in self._routes.find(changes):
            rows = hears.matcher.select(changes)
            if rows is None or rows:
                hears.last = changes.revisions[-1 if rows is None else rows[-1]]
                yield hears.attended

    def any_hears(self, changes: Changes) -> bool:
        """Whether anybody hears anything of a group, which may still grow."""
        kept, changes.views = changes.views, {}
        try:
            selected = (hears.matcher.select(changes) for hears in self._routes.find(changes))
            return any(rows is None or bool(rows) for rows in selected)
        finally:
            changes.views = kept

    def hear(self, attended: Attended, value: object) -> tuple[Heard, str]:
        """What an entry of this value hears from now on, and why nobody can say, if so."""
        try:
            hearing = read_hearing(value, attended.path, self._limits)
            hears = attended.hearings.get(hearing) or self._begin(attended, hearing)
        except WorldError as error:
            return Heard(), error.message
        if hears is None:
            return Heard(), ""
        hears.users += 1
        return hears, ""

    def release(self, heard: Heard) -> None:
        """One of those who hear it does so no more."""
        if isinstance(heard, Hears):
            heard.users -= 1
            if not heard.users:
                self._routes.remove(heard)
                del heard.attended.hearings[heard.hearing]

    def _begin(self, attended: Attended, hearing: Hearing) -> Hears | None:
        if not hearing.parts:
            return None
        view = self._tree.grants.view_of(hearing.group) if hearing.group else None
        first, *rest = [part.filter for part in hearing.parts]
        matcher = join(compile_filters(first, rest, self._limits, view))
        self._made += 1
        hears = attended.hearings[hearing] = Hears(self._made, attended, hearing, matcher)
        self._routes.add(hears)
        return hears

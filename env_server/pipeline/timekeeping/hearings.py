"""What the participants of event-driven clocks hear, found by the groups that it may concern.

Those of one clock that hear the same share one compiled filter, so that an event costs nothing for each of them.
"""

from collections.abc import Iterator

from env_server.events.alternatives import AnyMatcher, compile_filters, join
from env_server.events.routing import Routes
from env_server.model.changes import Changes
from env_server.model.errors import WorldError
from env_server.model.limits import Limits
from env_server.model.views import View
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
    """What some participants of a clock hear, found by the groups of changes that it may concern."""

    __slots__ = ("attended", "hearing", "matcher", "number", "roots", "sight", "users", "view")

    def __init__(self, number: int, attended: Attended, hearing: Hearing, view: View | None) -> None:
        super().__init__()
        self.number = number
        self.attended = attended
        self.hearing = hearing
        #: Not set while there is a `problem`.
        self.matcher: AnyMatcher
        #: Environments that all of it equals or lies below.
        self.roots: tuple[str, ...] = ()
        #: What the group was granted when this was compiled, and where that lets it hear anything.
        self.view = view
        self.sight: tuple[tuple[str, ...], ...] = ()
        self.users = 0


def may_be_told(view: View | None, heard: Heard) -> bool:
    """Whether a group with this view sees everything that may be heard there, and so may learn when that was."""
    if view is None or not isinstance(heard, Hears) or heard.hearing.group == view.group:
        return True
    return not view.loses(heard.roots)


class Hearings:
    """All that is heard in one world."""

    def __init__(self, tree: Tree, limits: Limits) -> None:
        self._tree = tree
        self._limits = limits
        self._routes: Routes[Hears] = Routes()
        self._made = 0
        #: What is heard in the view of a group, by group; and how many changes of grants that heeds.
        self._by_group: dict[str, dict[Hears, None]] = {}
        self._changes_heeded = 0

    def publish(self, changes: Changes) -> Iterator[Attended]:
        """Notes who hears anything of a durable group; tells the clocks of those, one perhaps more than once."""
        if not len(changes):
            return  # it may still have the places of rows that were taken back
        for hears in self._routes.find(changes):
            rows = hears.matcher.select(changes)
            if rows is None or rows:
                hears.last = changes.revisions[-1 if rows is None else rows[-1]]
                yield hears.attended

    def any_hears(self, changes: Changes) -> bool:
        """Whether anybody hears anything of a group, which may still grow."""
        if not len(changes):
            return False
        kept, changes.views = changes.views, {}
        try:
            selected = (hears.matcher.select(changes) for hears in self._routes.find(changes))
            return any(rows is None or bool(rows) for rows in selected)
        finally:
            changes.views = kept

    def heed_grants(self) -> list[Hears]:
        """Lets all be heard as grants are now; returns what is heard otherwise since.

        A watch that begins now may be told of events that have been before, so that all have to consume these.
        """
        grants = self._tree.grants
        if self._changes_heeded == grants.changes:
            return []
        self._changes_heeded = grants.changes
        changed = []
        for group, all_hears in self._by_group.items():
            view = grants.view_of(group)
            changed += [hears for hears in all_hears if hears.view is not view and self._see_as(hears, view)]
        for hears in changed:
            hears.last = self._tree.revision
        return changed

    def hear(self, attended: Attended, value: object) -> Heard:
        """What an entry of this value hears from now on."""
        try:
            hearing = read_hearing(value, attended.path, self._limits)
        except WorldError as error:
            return Heard(error.message)
        if not hearing.parts:
            return Heard()
        hears = attended.hearings.get(hearing) or self._begin(attended, hearing)
        hears.users += 1
        return hears

    def release(self, heard: Heard) -> None:
        """One of those who hear it does so no more."""
        if not isinstance(heard, Hears):
            return
        heard.users -= 1
        if heard.users:
            return
        self._silence(heard)
        hearing = heard.hearing
        del heard.attended.hearings[hearing]
        if hearing.group:
            of_group = self._by_group[hearing.group]
            del of_group[heard]
            if not of_group:
                del self._by_group[hearing.group]

    def _begin(self, attended: Attended, hearing: Hearing) -> Hears:
        self._made += 1
        view = self._tree.grants.view_of(hearing.group) if hearing.group else None
        hears = attended.hearings[hearing] = Hears(self._made, attended, hearing, view)
        if hearing.group:
            self._by_group.setdefault(hearing.group, {})[hears] = None
        self._compile(hears)
        return hears

    def _see_as(self, hears: Hears, view: View) -> bool:
        """Lets it be heard in another view; returns whether that is anything else."""
        before = hears.sight, hears.problem
        self._silence(hears)
        hears.view = view
        self._compile(hears)
        return before != (hears.sight, hears.problem)

    def _compile(self, hears: Hears) -> None:
        view = hears.view
        first, *rest = [part.filter for part in hears.hearing.parts]
        try:
            matchers = compile_filters(first, rest, self._limits, view)
        except WorldError as error:
            hears.roots, hears.sight, hears.problem = (), (), error.message
            return
        hears.matcher, hears.problem = join(matchers), ""
        hears.roots = tuple(matcher.root for matcher in matchers)
        hears.sight = () if view is None else tuple(view.rests_on(root) for root in hears.roots)
        self._routes.add(hears)

    def _silence(self, hears: Hears) -> None:
        if not hears.problem:
            self._routes.remove(hears)

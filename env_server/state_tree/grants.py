"""Grants of all environments, by group: what views are made of."""

from env_server.model.environments import Access, Grant
from env_server.model.views import EVERY_GROUP, UNSEEN, View

_KNOWN_MAX = 65_536


class Grants:
    """What the environments of one tree grant now. Costs nothing while no group asks."""

    def __init__(self) -> None:
        self._granted: dict[str, dict[str, Access]] = {}
        self._views: dict[str, View] = {}
        self._known: dict[tuple[str, str], int] = {}
        self._withdrawn: list[int] = []
        #: How often what is granted has changed.
        self.changes = 0

    def view_of(self, group: str) -> View:
        """The group's view as of now; it never changes. As long as nothing was granted to, or taken from, the group,
        mostly the same object.
        """
        view = self._views.get(group)
        if view is None:
            granted = dict(self._granted.get(EVERY_GROUP, {}))
            for path, access in self._granted.get(group, {}).items():
                granted[path] = max(access, granted.get(path, access))
            if len(self._views) >= _KNOWN_MAX:
                self._views.clear()
            view = self._views[group] = View(group, granted)
        return view

    def access(self, group: str, path: str) -> int:
        """What the group may do at the path, as View.access; remembered until a grant changes."""
        name = group, path
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[name] = self.view_of(group).access(path)
        return found

    def change(self, path: str, before: tuple[Grant, ...], after: tuple[Grant, ...], group_number: int) -> None:
        """The environment at `path` grants `after` instead of `before`, from the open commit group on."""
        if before == after:
            return
        for group, _ in before:
            paths = self._granted[group]
            del paths[path]
            if not paths:
                del self._granted[group]
        for group, access in after:
            self._granted.setdefault(group, {})[path] = access
        self.changes += 1
        self._known.clear()
        concerned = {grant.group for grant in set(before) ^ set(after)}
        if EVERY_GROUP in concerned:
            self._views.clear()
        for group in concerned:
            self._views.pop(group, None)
        left = dict(after)
        if any(left.get(group, UNSEEN) < access for group, access in before):
            self._withdrawn.append(group_number)

    def was_withdrawn(self, group_number: int) -> bool:
        """Whether commit groups up to this one took a grant away, or a part of one, since this was last asked."""
        is_due = bool(self._withdrawn) and self._withdrawn[0] <= group_number
        if is_due:
            self._withdrawn = [number for number in self._withdrawn if number > group_number]
        return is_due

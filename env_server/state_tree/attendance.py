"""Attendance: which live members a gate still waits for.

A gate with a `members_path` opens when every live member of that environment has reported, that is, has an entry under
the member's key in the gate's environment that was written in this generation. A derived effect like a tally: each
change of a report and each coming and going of a member moves two counts, in its loop step and in its revision.

    members   live members of the other environment
    missing   those of them that have not reported; the gate opens at 0, unless there are no members at all
"""

from env_server.model.entries import Entry


class Attendance:
    """What one gate waits for in one generation."""

    __slots__ = ("begin_revision", "members", "members_path", "missing")

    def __init__(self, members_path: str, begin_revision: int) -> None:
        self.members_path = members_path
        self.begin_revision = begin_revision
        self.members = 0
        self.missing = 0

    @property
    def is_complete(self) -> bool:
        """Whether all have reported, and there is one at least."""
        return self.missing == 0 and self.members > 0

    def is_report(self, entry: Entry | None) -> bool:
        """Whether this state of an entry was written in the generation."""
        return entry is not None and (entry[7] or entry[3]) > self.begin_revision

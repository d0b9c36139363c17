"""Who takes part in event-driven clocks, what each has to hear, and what was reported for it.

Participants are entries; they are read again when a group that touches them is published, and so is what they hear
counted: by the places and types of a group, once for all who hear the same, never by participant. What was published is
durable, and no clock goes on while something is not that may concern one of them (`concerns`): so at the moment of a
decision all this is the state of the world.

Reports are ephemeral. After a restart, as for a clock that was just declared, everybody has to consume all that has
happened so far: who heard what of it is not known.
"""

from collections.abc import Callable, Iterable
from typing import Final

from env_server.events.filters import TYPES, find_rows_at, find_values
from env_server.model.changes import CLOCK_CHANGED, ENTRY_TYPES, Changes, EventType
from env_server.model.clock_reports import ClockReport, Reporter, ReportVoid
from env_server.model.entries import Entry
from env_server.model.environments import Access
from env_server.model.errors import (
    DeniedView,
    Exhausted,
    Fenced,
    InvalidRequest,
    NotFound,
    OutOfRange,
    Reason,
    WorldError,
    WrongState,
)
from env_server.model.timelines import ClockMode
from env_server.pipeline.parts import Parts
from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.pipeline.timekeeping.hearings import Attended, Hearings, Hears
from env_server.state_tree.preconditions import check_fence
from env_server.state_tree.visibility import check_seen
from env_server.timeline.participants import Participant
from env_server.timeline.timeline import Timeline

_QUIET_TYPES: Final = ENTRY_TYPES | {
    *(EventType.TIMER_SET, EventType.TIMER_CANCELLED, EventType.TIMER_FIRED),
    *(EventType.REGION_ENTERED, EventType.REGION_LEFT, EventType.PROXIMITY_ENTERED, EventType.PROXIMITY_LEFT),
}
"""Of rows that concern nobody but those who hear them."""
_READ_MAX: Final = 512
"""Entries of participants that are looked at in one step, where all are."""
_COMING_AND_GOING: Final = (EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_DELETED)


class Participation:
    """The participants of a world's event-driven clocks."""

    def __init__(self, parts: Parts, clocks: Clocks, moved: Callable[[Timeline], None]) -> None:
        """`moved` is told of a clock for which something has changed."""
        self._tree = parts.tree
        self._commits = parts.commits
        self._clocks = clocks
        self._limits = parts.limits
        self._moved = moved
        self._attended: dict[int, Attended] = {}
        self._by_place: dict[str, dict[int, Attended]] = {}
        self._hearings = Hearings(parts.tree, parts.limits)
        self._reported: dict[Reporter, dict[Participant, Attended]] = {}
        #: The last group that was found to concern somebody before it was published.
        self._concerned = 0

    def of(self, timeline: Timeline) -> Attended:
        """The clock with its participants, who are looked for if they were not yet."""
        attended = self._attended.get(timeline.number)
        if attended is not None and attended.timeline is timeline:
            return attended
        if attended is not None:  # its declaration was taken back
            self.forget(attended.timeline)
        path = self._clocks.node_of(timeline).path
        attended = self._attended[timeline.number] = Attended(timeline, path, self._tree.revision)
        self._by_place.setdefault(attended.place, {})[timeline.number] = attended
        self._read(attended)
        return attended

    def has_read(self, timeline: Timeline) -> bool:
        """Looks at some more of its participants, if there are very many; whether all are known now."""
        attended = self.of(timeline)
        if not attended.unread:
            return True
        node = self._tree.nodes.by_path.get(attended.place)
        for key in attended.unread[-_READ_MAX:]:
            if node is not None and key in node.entries:
                self._take(attended, key, node.entries[key])
        del attended.unread[-_READ_MAX:]
        if not attended.unread:  # nobody has counted what the last ones heard meanwhile
            attended.participants.raise_floor(self._tree.revision)
        return not attended.unread

    def forget(self, timeline: Timeline) -> None:
        """The clock is gone."""
        attended = self._attended.get(timeline.number)
        if attended is None or attended.timeline is not timeline:
            return
        del self._attended[timeline.number]
        del self._by_place[attended.place][timeline.number]
        if not self._by_place[attended.place]:
            del self._by_place[attended.place]
        gone = NotFound(Reason.CLOCK_NOT_FOUND, path=attended.path)
        self._dismiss(attended, gone)

    def publish(self, changes: Changes) -> None:
        """A group is durable: each once, in order."""
        if not self._attended:
            return
        for hears in self._hearings.heed_grants():
            if hears.problem:
                self._end_unheard(hears)
            self._stir(hears.attended)
        for index, place in enumerate(changes.places):
            for attended in list(self._by_place.get(place.path, {}).values()):
                self._follow(attended, changes, index)
        if CLOCK_CHANGED in find_values(changes, TYPES):
            self._hear_clocks(changes)
        for attended in self._hearings.publish(changes):
            self._stir(attended)

    def concerns(self, under_way: Iterable[Changes], durable_number: int) -> bool:
        """Whether groups that are not published yet may change whom a clock waits for, or what these have to consume.

        Those up to `durable_number` are published. The last one may still grow.
        """
        if self._concerned > durable_number:
            return True
        for changes in under_way:
            if self._may_concern(changes):
                self._concerned = changes.number
                return True
        return False

    def report(self, report: ClockReport, reporter: Reporter) -> None:
        """Takes a report.

        Raises:
            DeniedView: the group may not see the clock, or not write where the participants are.
            InvalidRequest: INVALID_PATH; INVALID_VALUE: what the participant hears cannot be understood.
            NotFound: ENVIRONMENT_NOT_FOUND, CLOCK_NOT_FOUND, PARTICIPANT_NOT_FOUND.
            WrongState: CLOCK_MODE_MISMATCH.
            Fenced: the entry was set again, or what the report stands behind has fallen.
            Exhausted: PARTICIPANT_QUOTA.
            OutOfRange: REVISION_IN_FUTURE.
        """
        tree = self._tree
        if report.group:
            check_seen(tree.grants, report.group, report.path)
        timeline = self._clocks.by_number.get(tree.nodes.find(report.path).number)
        if timeline is None:
            raise NotFound(Reason.CLOCK_NOT_FOUND, path=report.path)
        if timeline.declaration.mode is not ClockMode.EVENT_DRIVEN:
            problem = f"the clock of {report.path} is not event-driven: it waits for nobody"
            raise WrongState(Reason.CLOCK_MODE_MISMATCH, problem, metadata={"path": report.path})
        attended = self.of(timeline)
        if (denied := self._find_denial(report.group, attended)) is not None:
            raise denied
        if report.fence is not None:  # what its reporter did before may have been stopped by it, too
            check_fence(tree, report.fence)
        if attended.is_overfull:
            maximum = self._limits.participants_max
            problem = f"{attended.place} holds more entries than may take part in a clock"
            raise Exhausted.of(Reason.PARTICIPANT_QUOTA, "participants_max", maximum, problem)
        participant = self._find(attended, report)
        if report.consumed_revision > tree.revision:
            problem = f"revision {report.consumed_revision} is not there yet, the last one is {tree.revision}"
            raise OutOfRange(Reason.REVISION_IN_FUTURE, problem, metadata={"revision": str(tree.revision)})
        self._let_go(participant)
        attended.participants.report(participant, report, reporter)
        self._reported.setdefault(reporter, {})[participant] = attended
        self._stir(attended)

    def end_reports(self, reporter: Reporter) -> None:
        """What this reporter has said counts no more; nobody is told."""
        for participant, attended in self._reported.pop(reporter, {}).items():
            attended.participants.report(participant, None, None)

    def end_behind(self, reporter: Reporter, refusals: int) -> None:
        """Ends what this reporter has said without knowing of so many frames with ops refused for now."""
        for participant, attended in list(self._reported.get(reporter, {}).items()):
            report = participant.report
            if report is not None and report.refusals is not None and report.refusals < refusals:
                self._let_go(participant)
                attended.participants.report(participant, None, None)

    def end_denied(self) -> None:
        """Ends reports of groups that may report no more: see `report`."""
        for attended in self._attended.values():
            for participant in attended.participants:
                group = participant.report.group if participant.report is not None else ""
                denied = self._find_denial(group, attended)
                if denied is not None:
                    self._tell_void(attended, participant, denied)
                    attended.participants.report(participant, None, None)

    def let_go(self) -> None:
        """Of all that it holds; nothing else may be called afterwards."""
        vars(self._hearings).clear()
        vars(self).clear()

    def _may_concern(self, changes: Changes) -> bool:
        if not _QUIET_TYPES.issuperset(changes.types):
            return True
        if any(place.path in self._by_place for place in changes.places):
            return True
        return self._hearings.any_hears(changes)

    def _find_denial(self, group: str, attended: Attended) -> DeniedView | None:
        """Why the group may not report to the clock; None = it may."""
        if not group:
            return None
        if not self._tree.grants.access(group, attended.path):
            return DeniedView(group, attended.path, "see")
        if self._tree.grants.access(group, attended.place) < Access.WRITE:
            return DeniedView(group, attended.place, "change")
        return None

    def _find(self, attended: Attended, report: ClockReport) -> Participant:
        """The participant that a report is about, as the world has it now."""
        node, key = self._tree.nodes.by_path.get(attended.place), report.key
        entry = node.entries.get(key) if node is not None else None
        if entry is None:
            raise NotFound(Reason.PARTICIPANT_NOT_FOUND, path=attended.place, key=key)
        if entry.reported != report.set_revision:
            raise _fenced(attended, key)
        self._take(attended, key, entry)
        participant = attended.participants.get(key)
        assert participant is not None
        if participant.heard.problem:
            raise _unheard(participant)
        return participant

    # -- entries --

    def _follow(self, attended: Attended, changes: Changes, place: int) -> None:
        """Rows of a group that concern the participants' environment."""
        types, keys = changes.types, dict[str, None]()
        for row in find_rows_at(changes, (place,)):
            if types[row] in ENTRY_TYPES:
                keys[changes.keys[row]] = None
            elif types[row] in _COMING_AND_GOING:
                self._read(attended)
                return
        node = self._tree.nodes.by_path.get(attended.place)
        entries = node.entries if node is not None else {}
        if attended.is_overfull is not (len(entries) > self._limits.participants_max):
            self._read(attended)
        elif keys and not attended.is_overfull:
            for key in keys:
                self._take(attended, key, entries.get(key))
            self._stir(attended)

    def _read(self, attended: Attended) -> None:
        """Looks at all entries."""
        node = self._tree.nodes.by_path.get(attended.place)
        entries = node.entries if node is not None else {}
        maximum, was_overfull = self._limits.participants_max, attended.is_overfull
        attended.unread = []
        attended.is_overfull = len(entries) > maximum
        if was_overfull and not attended.is_overfull:  # nobody has counted what they hear meanwhile
            attended.participants.raise_floor(self._tree.revision)
        if attended.is_overfull:
            problem = f"{attended.place} holds more entries than may take part in a clock"
            self._dismiss(attended, Exhausted.of(Reason.PARTICIPANT_QUOTA, "participants_max", maximum, problem))
        else:
            for key in [one.key for one in attended.participants if one.key not in entries]:
                self._take(attended, key, None)
            if len(entries) > _READ_MAX:
                attended.unread = list(entries)
            else:
                for key, entry in entries.items():
                    self._take(attended, key, entry)
        self._stir(attended)

    def _take(self, attended: Attended, key: str, entry: Entry | None) -> None:
        """The entry is as it is."""
        participants = attended.participants
        before = participants.get(key)
        if before is not None and entry is not None and before.set_revision == entry.reported:
            return
        if entry is None:
            participants.drop(key)
        else:
            participants.put(Participant(key, entry.reported, self._hearings.hear(attended, entry.value)))
        if before is None:
            return
        self._hearings.release(before.heard)
        gone = NotFound(Reason.PARTICIPANT_NOT_FOUND, path=attended.place, key=key)
        self._tell_void(attended, before, gone if entry is None else _fenced(attended, key))

    def _dismiss(self, attended: Attended, error: WorldError) -> None:
        """Nobody takes part any more."""
        for participant in list(attended.participants):
            attended.participants.drop(participant.key)
            self._hearings.release(participant.heard)
            self._tell_void(attended, participant, error)

    # -- clocks --

    def _hear_clocks(self, changes: Changes) -> None:
        """All participants of a clock hear of its own changes."""
        for row, type_ in enumerate(changes.types):
            if type_ == CLOCK_CHANGED:
                attended = self._attended.get(changes.places[changes.path[row]].number)
                if attended is not None:
                    attended.participants.raise_floor(changes.revisions[row])
                    self._stir(attended)

    # -- reports --

    def _end_unheard(self, hears: Hears) -> None:
        """Nobody can say any more what these hear: what was reported for them counts no more."""
        attended = hears.attended
        for participant in attended.participants:
            if participant.heard is hears and participant.report is not None:
                self._tell_void(attended, participant, _unheard(participant))
                attended.participants.report(participant, None, None)

    def _tell_void(self, attended: Attended, participant: Participant, error: WorldError) -> None:
        report, reporter = participant.report, participant.reporter
        if report is not None and reporter is not None:
            self._let_go(participant)
            void = ReportVoid(attended.path, participant.key, participant.set_revision, error)
            self._commits.when_seen(lambda: reporter.void(void))  # it rests on what may not be on the disk yet

    def _let_go(self, participant: Participant) -> None:
        """Its reporter, if it has one, is not its reporter any more."""
        if participant.reporter is not None:
            of_reporter = self._reported.get(participant.reporter, {})
            of_reporter.pop(participant, None)
            if not of_reporter:
                self._reported.pop(participant.reporter, None)

    def _stir(self, attended: Attended) -> None:
        attended.participants.stir()
        self._moved(attended.timeline)


def _unheard(participant: Participant) -> InvalidRequest:
    return InvalidRequest(Reason.INVALID_VALUE, f"the value of {participant.key!r}", participant.heard.problem)


def _fenced(attended: Attended, key: str) -> Fenced:
    return Fenced(f"the participant {key!r} of {attended.place} was set again", path=attended.place, key=key)

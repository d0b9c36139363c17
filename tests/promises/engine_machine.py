"""The machine that compares a world in this process with its model: any ops, crashes at any step, a watch.

Everything that happens by itself, in time, is in `living_machine`.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from env_server.events.watch import Watch
from env_server.model.changes import EventType
from env_server.model.entries import STREAM, VALUE
from env_server.model.environments import Aggregate, Function
from env_server.model.environments import Declaration as EnvironmentDeclaration
from env_server.model.errors import Reason, WorldError
from env_server.model.frames import EntryRead, NearbyPage, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.operations import (
    Code,
    Delete,
    Get,
    Nearby,
    Placed,
    Precondition,
    Query,
    RegisterEntry,
    RegisterEnvironment,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.model.spaces import Box, Grid, Proximity, Region, Space
from env_server.model.values import NOTHING, Json
from env_server.model.watching import Filter, WatchSpec
from tests.engine import Op, Sent, Stand
from tests.promises.asks import MOVING_FRAMES
from tests.promises.world_model import (
    CAPACITY,
    ITEMS_MAX,
    SIDE,
    SPATIAL,
    Ask,
    Document,
    Model,
    Said,
    Told,
    picture_of_model,
    read_again,
)

VALUED = (1, 4, 5, 6, 13, 17, 18, 19, 20, 23, 24)
"""Types of events that carry a value."""
LIMITS = Limits(replay_ops_max=24, stream_items_max=ITEMS_MAX)
SPACE = Space(
    Grid(SIDE, SIDE, capacity=CAPACITY), (Region("home", Box((0.0, 0.0), (1.0, 1.0))),), (Proximity("met", 1.0),)
)
DECLARATION = EnvironmentDeclaration(aggregates=(Aggregate("sum", Function.SUM),), space=SPACE)
CODES = {
    "set": Code.SET,
    "add": Code.ADD,
    "append": Code.APPEND,
    "merge": Code.MERGE,
    "create": Code.REGISTER_ENTRY,
    "ensure": Code.REGISTER_ENTRY,
    "delete": Code.DELETE_ENTRY,
    "drop": Code.DELETE_ENTRY,
    "read": Code.QUERY,
    "near": Code.QUERY,
    "move": Code.MOVE,
    "place": Code.PLACE,
    "register": Code.REGISTER_ENVIRONMENT,
    "ensure environment": Code.REGISTER_ENVIRONMENT,
    "unregister": Code.DELETE_ENVIRONMENT,
    "unregister all": Code.DELETE_ENVIRONMENT,
}


class EngineMachine(RuleBasedStateMachine):
    """One world, its model, one client with frames in flight, one watch."""

    limits = LIMITS
    types: frozenset[int] = frozenset({*range(1, 9), *range(17, 21)})

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stand = Stand(limits=self.limits)
        self.stand.clock.settle()
        self.model: Any = self.new_model()
        self.seq = 0
        self.acknowledged = 0
        self.answered: list[tuple[Sent, list[Ask], list[Said]]] = []
        self.told: list[Told] = []
        self.through = 0
        self.watch: Watch
        self.open_watch()

    def new_model(self) -> Model:
        """Of an empty world."""
        return Model(declared=SPATIAL)

    def before_a_crash(self) -> None:
        """Brings everything that happens by itself to its end."""

    def catch_up(self) -> None:
        """Lets the model take over what the world did by itself."""

    def picture(self) -> dict[str, Any]:
        """The world as it is."""
        return picture_of_world(self.stand)

    def expected_picture(self, model: Any) -> dict[str, Any]:
        """The world as it should be."""
        return picture_of_model(model)

    def watch_has_ended(self, error: WorldError) -> None:
        """A watch never ends here."""
        raise error

    def teardown(self) -> None:
        self.loop.close()
        self.stand.clock.settle()
        self.check_sums_told()

    def check_sums_told(self) -> None:
        """Who has heard every event of an aggregate knows what it is."""
        told: dict[str, Any] = {}
        for changes in self.stand.log.read(self.stand.log.first_revision, 1 << 40):
            for row, type_ in enumerate(changes.types):
                path = changes.places[changes.path[row]].path
                if type_ in (EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_DELETED):
                    told[path] = None
                elif type_ == EventType.AGGREGATE_CHANGED:
                    told[path] = changes.values[row]
        for path, node in self.stand.world._tree.nodes.by_path.items():
            if node.tally is not None and path in told:  # else the log has forgotten it
                assert told[path] == node.tally.values()[0].value, path

    @rule(frame=MOVING_FRAMES)
    def send_a_frame(self, frame: list[Ask]) -> None:
        expected = [self.model.apply(ask) for ask in frame]
        self.seq += 1
        sent = self.stand.do(*map(to_op, frame), client_id="c", seq=self.seq)
        self.check_answer(sent, expected)
        self.answered = [*self.answered[-7:], (sent, frame, expected)]

    @rule(frames=st.lists(MOVING_FRAMES, min_size=1, max_size=3), steps=st.integers(0, 5), apart=st.booleans())
    def crash_with_frames_in_flight(self, frames: list[list[Ask]], steps: int, apart: bool) -> None:
        """After the restart a prefix of the frames is there, whole; sent again, all are there once."""
        self.before_a_crash()
        states, expected, sent = [self.model.copy()], [], []
        for frame in frames:
            expected.append([self.model.apply(ask) for ask in frame])
            states.append(self.model.copy())
            self.seq += 1
            sent.append(self.stand.send(*map(to_op, frame), client_id="c", seq=self.seq))
            if apart:
                self.stand.clock.step()
        for _ in range(steps):
            self.stand.clock.step()
        self.read_watch()
        answered = sum(one.done for one in sent)
        for one, outcomes in zip(sent[:answered], expected, strict=False):
            self.check_answer(one, outcomes)
        self.stand.reopen()
        survivors = [state for state in states[answered:] if state.revision == self.stand.world.revision]
        assert survivors, f"revision {self.stand.world.revision} is none of {[s.revision for s in states[answered:]]}"
        assert self.picture() == self.expected_picture(survivors[-1])
        assert self.through <= self.stand.world.revision, "what a watch has told survives"
        self.open_watch()
        survived = max(number for number, state in enumerate(states) if state is survivors[-1])
        for number, (one, frame, outcomes) in enumerate(zip(sent, frames, expected, strict=True)):
            again = self.stand.resend(one)
            self.stand.clock.settle()
            self.check_answer(again, read_again(survivors[-1], frame, outcomes) if number < survived else outcomes)
            self.answered = [*self.answered[-7:], (again, frame, outcomes)]

    @rule(back=st.integers(0, 5))
    def repeat_an_answered_frame(self, back: int) -> None:
        if back < len(self.answered):
            sent, frame, expected = self.answered[-1 - back]
            again = self.stand.resend(sent)
            self.stand.clock.settle()
            self.check_answer(again, read_again(self.model, frame, expected))

    @rule(back=st.integers(0, 3))
    def acknowledge(self, back: int) -> None:
        upto = self.seq - back
        self.stand.world.acknowledge("c", max(0, upto))
        self.answered = [one for one in self.answered if one[0].frame.seq > upto]

    @rule()
    def crash(self) -> None:
        self.stand.reopen()
        self.open_watch()

    @rule()
    def stop_and_start(self) -> None:
        self.read_watch()
        self.stand.stop()
        self.stand.open()
        self.open_watch()

    @rule()
    def read_watch(self) -> None:
        self.catch_up()
        try:
            self.loop.run_until_complete(self.read_all())
        except WorldError as error:
            self.watch_has_ended(error)

    @rule()
    def restart_the_watch(self) -> None:
        self.open_watch()

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        self.stand.clock.settle()  # what a restart begins with
        self.catch_up()
        assert self.picture() == self.expected_picture(self.model)

    @invariant()
    def everybody_is_where_the_model_says(self) -> None:
        self.stand.clock.settle()
        self.catch_up()
        for path, node in self.stand.world._tree.nodes.by_path.items():
            expected = {
                key: entry.position
                for (place, key), entry in self.model.entries.items()
                if place == path and entry.position
            }
            assert {key: entry.position for key, entry in node.entries.items() if entry.position} == expected
            if node.space is not None:
                assert node.space.in_box(Box((0.0, 0.0), (SIDE - 1.0, SIDE - 1.0))) == sorted(expected)

    @invariant()
    def sums_are_exact(self) -> None:
        self.stand.clock.settle()
        self.catch_up()
        for path, node in self.stand.world._tree.nodes.by_path.items():
            if node.tally is None:
                continue
            values = [entry.value for (place, _), entry in self.model.entries.items() if place == path]
            numbers = [value for value in values if type(value) in (int, float)]
            total = sum(map(Fraction, numbers), Fraction(0))
            seen = node.tally.values()[0].value
            assert (seen is None) if not numbers else (seen is None or Fraction(seen) == Fraction(float(total)))

    @invariant()
    def the_watch_tells_a_prefix_of_the_history(self) -> None:
        assert self.told == [event for event in self.model.events if event.revision <= self.through]

    def check_answer(self, sent: Sent, expected: list[Said]) -> None:
        assert sent.done
        found = [reduce(sent.outcome(index)) for index in range(len(expected))]
        for index, said in enumerate(found):
            if said.reason is Reason.SEQUENCE_PASSED and sent.frame.producers:  # only the last number is kept
                name, number = sent.frame.producers[index], sent.frame.producer_seqs[index]  # type: ignore[index]
                if name and self.model.producers[name][0] > number:
                    found[index] = expected[index]
        assert found == expected

    def open_watch(self) -> None:
        spec = WatchSpec(Filter(types=self.types), from_revision=self.through + 1)
        self.watch = self.stand.world.watches.open(spec)

    async def read_all(self) -> None:
        """Everything that the watch has to give now."""
        while True:
            reading = asyncio.get_running_loop().create_task(self.watch.next(7), name="read the watch")
            for _ in range(20):
                await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
                return
            delivery = reading.result()
            changes = delivery.changes
            if changes is not None:
                rows = range(len(changes)) if delivery.rows is None else delivery.rows
                self.told += [told_by(changes, row) for row in rows]
            self.through = max(self.through, delivery.through_revision)


def to_op(ask: Ask) -> Op:
    beside = {"producer": ask.producer, "seq": ask.seq, "version": ask.version}
    if ask.verb == "transact":
        tests = tuple(Precondition(Condition.VERSION, version, path, key) for path, key, version in ask.tests)
        asked = Transact(tests, tuple(map(to_write, ask.parts)), tuple(map(to_write, ask.otherwise)))
        return Op(ask.path, "", Code.TRANSACT, asked, **beside)
    return Op(ask.path, ask.key, CODES[ask.verb], argument_of(ask), **beside)


def to_write(ask: Ask) -> Write:
    return Write(ask.path, ask.key, CODES[ask.verb], argument_of(ask))


def argument_of(ask: Ask) -> object:
    match ask.verb:
        case "register" | "ensure environment":
            return RegisterEnvironment(DECLARATION, if_absent=ask.verb != "register")
        case "create" | "ensure":
            return RegisterEntry(VALUE, ask.value, if_absent=ask.verb == "ensure")
        case "delete" | "drop" | "unregister" | "unregister all":
            return Delete(recursive=ask.verb == "unregister all", if_present=ask.verb == "drop")
        case "merge":
            return Json.of(ask.value)
        case "read":
            return Query(Get())
        case "near":
            return Query(Nearby(radius=2.0))
        case "place":
            return Placed(*ask.value)
        case _:
            return ask.value


def reduce(outcome: Any) -> Said:
    if isinstance(outcome, WorldError):
        return Said(outcome.reason)
    if isinstance(outcome, Transacted):
        parts = tuple(reduce(one) for one in outcome.written)
        return Said(None, outcome.revision, parts=parts, otherwise=outcome.otherwise)
    if isinstance(outcome, NearbyPage):
        return Said(None, outcome.revision, value=tuple(outcome.keys))
    if isinstance(outcome, EntryRead):
        entry = outcome.entry
        return Said(None, entry.modified, entry.version, None if entry.kind == STREAM else plain(entry.value))
    assert isinstance(outcome, Written)
    return Said(None, outcome.revision, outcome.version, outcome.value, outcome.sequence)


def plain(value: Any) -> Any:
    return Document.of(value.document) if isinstance(value, Json) else value


def told_by(changes: Any, row: int) -> Told:
    type_ = int(changes.types[row])
    value = changes.told_value(row)
    assert (value is NOTHING) == (type_ not in VALUED)
    value = None if value is NOTHING else value
    if type_ == EventType.ENTRY_MOVED:
        value = changes.told_position(row)
    path = changes.places[changes.path[row]].path
    return Told(changes.revisions[row], type_, path, changes.keys[row], changes.versions[row], plain(value))


def picture_of_world(stand: Stand) -> dict[str, Any]:
    seen: dict[str, Any] = {"revision": stand.world.revision}
    for path, node in stand.world._tree.nodes.by_path.items():
        seen[path] = {}
        for key, entry in node.entries.items():
            value = entry.value
            if key in node.streams:
                value = (entry.value.next, [(item.sequence, item.value) for item in node.streams[key].items])
            seen[path][key] = (plain(value), entry.version, entry.modified)
    return seen

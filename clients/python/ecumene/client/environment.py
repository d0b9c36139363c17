"""The handle of one environment: its entries, declarations, operations and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from env_api.v1 import operations_pb2, queries_pb2, session_pb2

from ecumene.client import actions
from ecumene.client.actions import Conditions, WriteOptions
from ecumene.client.declarations import Declarations
from ecumene.client.listings import Listing
from ecumene.client.model import (
    Entry,
    EntryKind,
    EntryPage,
    EnvironmentInfo,
    EnvironmentPage,
    EventFilter,
    EventType,
    Invoked,
    Json,
    PastPage,
    StreamPage,
    Transacted,
    Value,
    Written,
)
from ecumene.client.op_calls import OpCalls
from ecumene.client.reasons import EntryNotFoundError
from ecumene.client.spaces import Position
from ecumene.client.spatial import SpaceOps
from ecumene.client.timeline import TimelineOps
from ecumene.client.transaction import Writes
from ecumene.client.values import OP_FIELDS, check_key, check_path, convert_value, encode_object
from ecumene.client.watches import Watch

if TYPE_CHECKING:
    from ecumene.client.world import World


class Environment(Declarations, TimelineOps, SpaceOps):
    """An environment at a path; making the handle asks the server nothing.

    Every awaited op is one op of the session: those issued in the same loop step travel in one frame, ops on one
    key take effect in the order in which they were issued, and an op whose connection breaks is sent again under
    its old number and executed once. What the server refused for now, without effect, is issued again for a while
    (ClientSettings.refusals_max) if nothing has passed it on its key. Writes return what they did; all raise
    EcumeneError, among them EnvironmentNotFoundError, LimitExceededError, and with conditions
    PreconditionFailedError or GateClosedError.
    A cancelled wait does not take a write back. With `timeout_s`, an op that is not answered in time raises
    DeadlineExceededError, and the server drops it if it still waits there.
    """

    def __init__(self, world: World, path: str, timeout_s: float | None = None) -> None:
        self._world = world
        self._ops = OpCalls(world.session, check_path(path), timeout_s, world.stamp)
        self.path = path
        self.timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<Environment {self.path} of {self._world.name}>"

    def child(self, name: str) -> Environment:
        """The handle of the environment `name` below this one."""
        return Environment(self._world, f"{self.path.rstrip('/')}/{name}", self.timeout_s)

    async def set(
        self, key: str, value: Value, *, position: Position | None = None, **options: Unpack[WriteOptions]
    ) -> Written:
        """Replace an entry's value, creating it when it is absent; with `position`, move it there in the same step."""
        if position is not None:
            return await self._set_and_move(key, value, position, options)
        kind, wire = convert_value(value)
        return await self._ops.answer(
            self._ops.write(session_pb2.Op(key=check_key(key), **{OP_FIELDS[kind]: wire}), options), Written
        )

    async def create(
        self,
        key: str,
        value: Value,
        *,
        position: Position | None = None,
        lease_id: int = 0,
        if_absent: bool = False,
        **options: Unpack[WriteOptions],
    ) -> Written:
        """Create an entry, at a position of the space if one is given. `lease_id`: a lease with which it goes.

        Raises:
            EntryExistsError: it exists, unless `if_absent`; that leaves it as it is.
            SpaceNotFoundError, InvalidPositionError, CellFullError: it cannot be there.
        """
        register = actions.register_entry(
            EntryKind.VALUE, value, if_absent=if_absent, lease_id=lease_id, position=position
        )
        return await self._ops.answer(
            self._ops.write(session_pb2.Op(key=check_key(key), register=register), options), Written
        )

    async def create_stream(
        self,
        key: str,
        *,
        items_max: int = 0,
        lease_id: int = 0,
        if_absent: bool = False,
        **options: Unpack[WriteOptions],
    ) -> Written:
        """Create a stream that keeps the last `items_max` items; 0 = the server's default."""
        register = actions.register_entry(
            EntryKind.STREAM, None, if_absent=if_absent, items_max=items_max, has_value=False, lease_id=lease_id
        )
        return await self._ops.answer(
            self._ops.write(session_pb2.Op(key=check_key(key), register=register), options), Written
        )

    async def get(self, key: str, *, inherit: bool = False) -> Entry:
        """An entry; with `inherit`, that of the nearest ancestor that has one.

        Raises:
            EntryNotFoundError: there is none.
        """
        query = queries_pb2.Query(get=queries_pb2.Get(inherit=inherit))
        return await self._ops.answer(self._ops.read(key, query), Entry)

    async def value(self, key: str, default: Value = None, *, inherit: bool = False) -> Value:
        """An entry's value, or `default` when there is no entry."""
        try:
            return (await self.get(key, inherit=inherit)).value
        except EntryNotFoundError:
            return default

    async def increment(self, key: str, amount: int | float = 1, **options: Unpack[WriteOptions]) -> Written:
        """Add to a counter, created by its first increment; `Written.value` is the new sum.

        The type of `amount` is the counter's: ints count exactly in 64 bits. A counter of the other type is left as
        it is.

        Raises:
            EntryKindMismatchError: the entry is no counter, or one of the other type.
        """
        return await self._ops.answer(self._ops.update(key, actions.increment(amount), options), Written)

    async def append(self, key: str, item: Value, **options: Unpack[WriteOptions]) -> Written:
        """Append one item to a stream, created by its first append; `Written.sequence` is its number."""
        return await self._ops.answer(self._ops.update(key, actions.append(item), options), Written)

    async def merge(self, key: str, patch: Mapping[str, Json], **options: Unpack[WriteOptions]) -> Written:
        """RFC 7396 merge patch on a JSON value: None removes a field; an absent entry counts as {}."""
        return await self._ops.answer(self._ops.update(key, actions.merge(patch), options), Written)

    async def delete(self, key: str, *, if_present: bool = False, **options: Unpack[WriteOptions]) -> Written:
        """Delete an entry.

        Raises:
            EntryNotFoundError: there is none, unless `if_present`.
        """
        delete = operations_pb2.Delete(if_present=if_present)
        return await self._ops.answer(
            self._ops.write(session_pb2.Op(key=check_key(key), delete=delete), options), Written
        )

    def entries(self, prefix: str = "", *, page_size: int = 0) -> Listing[Entry]:
        """Entries in key order, all at one revision; pages are fetched as they are needed.

        Iterating raises:
            PageExpiredError: more than 30 s passed between two pages.
        """

        async def fetch(token: str) -> tuple[Sequence[Entry], str]:
            ask = queries_pb2.ListEntries(key_prefix=prefix, page_size=page_size, page_token=token)
            page = await self._ops.answer(self._ops.read_whole(queries_pb2.Query(list_entries=ask)), EntryPage)
            return page.entries, page.next_page_token

        return Listing(fetch)

    def children(
        self, prefix: str = "", *, labels: Mapping[str, str] | None = None, page_size: int = 0
    ) -> Listing[EnvironmentInfo]:
        """Child environments in path order, all at one revision; pages as in `entries`."""

        async def fetch(token: str) -> tuple[Sequence[EnvironmentInfo], str]:
            ask = queries_pb2.ListChildren(
                name_prefix=prefix, labels=dict(labels or {}), page_size=page_size, page_token=token
            )
            page = await self._ops.answer(self._ops.read_whole(queries_pb2.Query(list_children=ask)), EnvironmentPage)
            return page.environments, page.next_page_token

        return Listing(fetch)

    async def read_stream(self, key: str, *, from_sequence: int = 0, limit: int = 0) -> StreamPage:
        """Items of a stream from a number on; 0 = the oldest kept, and at most 1,000 items.

        Raises:
            EntryNotFoundError: there is no such stream.
            EntryKindMismatchError: the entry is not a stream.
        """
        ask = queries_pb2.ReadStream(from_sequence=from_sequence, limit=limit)
        return await self._ops.answer(self._ops.read(key, queries_pb2.Query(stream=ask)), StreamPage)

    async def read_past(self, key: str, *, from_revision: int = 0, to_revision: int = 0, limit: int = 0) -> PastPage:
        """What happened to an entry, from the retained log, oldest first; it need not exist any more.

        Both revisions are inclusive; 0 = the oldest retained, and now. At most `limit` changes (0 = 1,000).
        """
        ask = queries_pb2.ReadPast(from_revision=from_revision, to_revision=to_revision, limit=limit)
        return await self._ops.answer(self._ops.read(key, queries_pb2.Query(past=ask)), PastPage)

    async def invoke(self, operation: str, /, **args: Json) -> Json:
        """Run an operation of the environment's behaviour; returns what it returned.

        Raises:
            OperationNotFoundError, InvalidArgumentsError: it has no such operation, or other parameters.
            OperationRefusedError: the behaviour said no; nothing happened.
            QueueFullError: too many operations wait.
        """
        return (await self.run(operation, args)).result

    async def run(
        self,
        operation: str,
        args: Mapping[str, Json] | None = None,
        *,
        companions: Writes | None = None,
        **options: Unpack[WriteOptions],
    ) -> Invoked:
        """`invoke` in full: with up to 16 companion writes, committed in the operation's revision, and options."""
        invoke = operations_pb2.Invoke(
            operation=operation,
            args_json=encode_object(args, "args: give the parameters by name in a dict") if args else b"",
            companions=companions.messages if companions else (),
        )
        return await self._ops.answer(self._ops.write(session_pb2.Op(invoke=invoke), options), Invoked)

    def watch(
        self,
        *,
        types: Sequence[EventType] = (),
        key_glob: str = "",
        from_revision: int = 0,
        history: str = "",
        initial_state: bool = False,
        exclude_own: bool = False,
        region: str = "",
        conflate: bool = False,
    ) -> Watch:
        """Events of this environment and all below it, one by one; see World.watch for the arguments.

        `region`: only who enters and leaves the region of this name.
        """
        wanted = EventFilter(
            path_prefix=self.path, types=tuple(types), key_glob=key_glob, exclude_own=exclude_own, region=region
        )
        return self._world.watch(
            wanted,
            from_revision=from_revision,
            history=history,
            initial_state=initial_state,
            conflate=conflate,
        )

    async def _set_and_move(self, key: str, value: Value, position: Position, options: WriteOptions) -> Written:
        writes = Writes()
        conditions = {name: options.pop(name) for name in Conditions.__annotations__ if name in options}  # type: ignore[misc]
        writes.set(self.path, key, value, **conditions).move(self.path, key, position)
        op = session_pb2.Op(transact=operations_pb2.Transact(writes=writes.messages))
        done = await self._ops.answer(self._ops.write(op, options), Transacted)
        version = done.written[-1].version if done.written else 0
        return Written(done.revision, version, duplicate=done.duplicate)

"""Frames built by hand: many ops, one future. For programs that send tens of thousands of ops a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from env_api.v1 import operations_pb2, queries_pb2, session_pb2, timeline_pb2

from ecumene.client import actions, space_actions, timeline_actions
from ecumene.client.actions import WriteOptions
from ecumene.client.clocks import MissedTicks
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import EntryKind, Json, Value
from ecumene.client.refused_ops import Touched
from ecumene.client.rows import Rows, apply_conditions, encode_block
from ecumene.client.spaces import Position
from ecumene.client.stamps import PLAIN, Stamp
from ecumene.client.timeline_actions import ClockChange
from ecumene.client.values import check_key

if TYPE_CHECKING:
    from ecumene.client.session import Session
    from ecumene.client.subscriptions import Delivery


class FrameWriter:
    """Sends whole frames of one session, in order, at most `frames_in_flight_max` unanswered.

    Every method that sends waits while that many are unanswered: that is the back-pressure. `submit*` returns
    when the frame is queued, with a future for its result; `send*` also waits for the result. A failed op fails
    alone: see FrameResult.failures. One that the server refused for now is sent again as single ops are, within
    `ClientSettings.refusals_max` and the deadline, if no op on its key has passed it; the result then comes later, and
    the op takes effect after others of its frame. A cancelled wait takes nothing back.
    """

    def __init__(self, session: Session, stamp: Stamp = PLAIN) -> None:
        self._session = session
        self.stamp: Stamp = stamp
        """What stands on the ops of its blocks; a Frame has a stamp of its own."""

    async def submit_block(
        self,
        path: str,
        keys: Sequence[str],
        values: Sequence[Value],
        *,
        producers: Sequence[str] | None = None,
        seqs: Sequence[int] | int = 0,
        gate_generation: int = 0,
        actors: Sequence[str] | None = None,
        causes: Sequence[str] | None = None,
        add: bool = False,
        join_lease_id: int = 0,
        positions: Any = None,
        return_versions: bool = False,
        deadline_ms: int = 0,
    ) -> asyncio.Future[FrameResult]:
        """Set one value a key under `path`; values are of one kind.

        With `add` it increments counters; with `join_lease_id` it registers members, see Lease.join. Costs client and
        server about a third of rows. `producers` and `seqs`: one a key, or one for all. `positions`: one a key, see
        Environment.move_many; with them each entry is placed as it is set, and with values = () it only moves.

        Raises:
            InvalidValueError: the values are of several kinds, of one that blocks do not carry, or not one a key.
            InvalidPositionError: not one position a key.
            LimitExceededError: more ops or bytes than a frame may have.
            EcumeneError: the session ended.
        """

        def encode(seq: int) -> bytes:
            return encode_block(
                seq,
                path,
                keys,
                values,
                producers=producers,
                seqs=seqs,
                gate_generation=gate_generation,
                actors=actors,
                causes=causes,
                add=add,
                join_lease_id=join_lease_id,
                positions=positions,
                stamp=self.stamp,
                return_versions=return_versions,
                deadline_ms=deadline_ms,
            )

        def touch() -> Touched:
            touched = Touched()
            touched.add_keys(path, keys)
            return touched

        return await self._session.submit(encode, len(keys), touch)

    async def send_block(self, path: str, keys: Sequence[str], values: Sequence[Value], **options: Any) -> FrameResult:
        """`submit_block`, then wait for the result."""
        return await (await self.submit_block(path, keys, values, **options))

    async def submit(self, frame: Frame) -> asyncio.Future[FrameResult]:
        """Queue a frame of rows. It cannot be changed or sent again.

        Raises:
            LimitExceededError: more ops or bytes than a frame may have.
            EcumeneError: the session ended.
        """
        return await self._session.submit(frame.take_encoder(), len(frame), frame.touch)

    async def send(self, frame: Frame) -> FrameResult:
        """`submit`, then wait for the result."""
        return await (await self.submit(frame))


class Frame:
    """Ops of any kind, anywhere in the world, that travel together and take effect one after the other; only one that
    was refused for now comes later.

    Each method adds one op and returns its index, by which FrameResult names it. Not a transaction: an op that
    fails does not stop the next.
    """

    def __init__(self, *, return_versions: bool = False, deadline_ms: int = 0, stamp: Stamp = PLAIN) -> None:
        self._rows = Rows()
        self._stamp = stamp
        self._return_versions = return_versions
        self._deadline_ms = deadline_ms
        self._is_taken = False

    def __len__(self) -> int:
        return len(self._rows)

    def set(self, path: str, key: str, value: Value, **options: Unpack[WriteOptions]) -> int:
        """Replace an entry's value, creating it when it is absent."""
        return self._rows.append_set(path, key, value, self._stamp.put_on(options))

    def increment(self, path: str, key: str, amount: int | float = 1, **options: Unpack[WriteOptions]) -> int:
        """Add to a counter, created by its first increment."""
        op = session_pb2.Op(key=check_key(key))
        if isinstance(amount, float):
            op.add_double = amount
        else:
            op.add_int = actions.check_amount(amount)
        return self.add(path, op, options)

    def append(self, path: str, key: str, item: Value, **options: Unpack[WriteOptions]) -> int:
        """Append one item to a stream, created by its first append."""
        return self.add(path, session_pb2.Op(key=check_key(key), update=actions.append(item)), options)

    def merge(self, path: str, key: str, patch: Mapping[str, Json], **options: Unpack[WriteOptions]) -> int:
        """RFC 7396 merge patch on a JSON value; an absent entry counts as {}."""
        return self.add(path, session_pb2.Op(key=check_key(key), update=actions.merge(patch)), options)

    def create(
        self,
        path: str,
        key: str,
        value: Value,
        *,
        position: Position | None = None,
        lease_id: int = 0,
        if_absent: bool = False,
        **options: Unpack[WriteOptions],
    ) -> int:
        """Create an entry, at a position if one is given."""
        register = actions.register_entry(
            EntryKind.VALUE, value, if_absent=if_absent, lease_id=lease_id, position=position
        )
        return self.add(path, session_pb2.Op(key=check_key(key), register=register), options)

    def move(self, path: str, key: str, position: Position | None, **options: Unpack[WriteOptions]) -> int:
        """Move an entry; None = it leaves the space."""
        return self.add(path, session_pb2.Op(key=check_key(key), update=space_actions.move(position)), options)

    def set_timer(
        self,
        path: str,
        name: str,
        *,
        at_ns: int | None = None,
        after_ns: int | None = None,
        every_ns: int = 0,
        missed: MissedTicks = "coalesce",
        payload: Json = None,
        if_absent: bool = False,
        **options: Unpack[WriteOptions],
    ) -> int:
        """Set a timer, see Environment.set_timer."""
        timeline = timeline_actions.set_timer(
            at_ns=at_ns, after_ns=after_ns, every_ns=every_ns, missed=missed, payload=payload, if_absent=if_absent
        )
        return self.add(path, session_pb2.Op(key=check_key(name), timeline=timeline), options)

    def cancel_timer(self, path: str, name: str, *, if_present: bool = False, **options: Unpack[WriteOptions]) -> int:
        """Cancel a timer."""
        op = session_pb2.Op(key=check_key(name), timeline=timeline_actions.cancel_timer(if_present))
        return self.add(path, op, options)

    def control_clock(self, path: str, **change: Unpack[ClockChange]) -> int:
        """Let the environment's own clock do one thing, such as `advance_by_ns=…` or `pause=True`."""
        timeline = timeline_pb2.Timeline(control=timeline_actions.control_clock(change))
        return self.add(path, session_pb2.Op(timeline=timeline), {})

    def delete(self, path: str, key: str, *, if_present: bool = False, **options: Unpack[WriteOptions]) -> int:
        """Delete an entry."""
        op = session_pb2.Op(key=check_key(key), delete=operations_pb2.Delete(if_present=if_present))
        return self.add(path, op, options)

    def get(self, path: str, key: str) -> int:
        """Read an entry; its outcome is an Entry."""
        query = queries_pb2.Query(get=queries_pb2.Get())
        return self.add(path, session_pb2.Op(key=check_key(key), query=query), {})

    def add(self, path: str, op: session_pb2.Op, options: Mapping[str, Any]) -> int:
        """Add an op of any kind, as a wire message."""
        options = self._stamp.put_on(options)
        apply_conditions(op, options)
        return self._rows.append(path, op, options)

    def acknowledge(self, delivery: Delivery) -> int:
        """Move a subscription's cursor behind what was delivered."""
        acknowledge = actions.acknowledge(delivery.subscription, delivery.term, delivery.through_revision)
        return self.add("/", session_pb2.Op(acknowledge=acknowledge), {})

    def touch(self) -> Touched:
        """What its ops touch."""
        touched = Touched()
        touched.add_rows(self._rows)
        return touched

    def take_encoder(self) -> Callable[[int], bytes]:
        """What encodes it, once.

        Raises:
            ValueError: it was sent already.
        """
        if self._is_taken:
            raise ValueError("a frame is sent once; make a new one")
        self._is_taken = True
        payload = self._rows

        def encode(seq: int) -> bytes:
            return payload.encode(seq, return_versions=self._return_versions, deadline_ms=self._deadline_ms)

        return encode

"""Writes that commit together: collected here, sent in one op, one revision or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from env_api.v1 import operations_pb2, session_pb2, timeline_pb2

from ecumene.client import actions, space_actions, timeline_actions
from ecumene.client.actions import Conditions, add_condition, is_condition
from ecumene.client.clocks import MissedTicks
from ecumene.client.model import EntryKind, Json, Transacted, Value
from ecumene.client.spaces import Position
from ecumene.client.stamps import PLAIN, Stamp
from ecumene.client.timeline_actions import ClockChange
from ecumene.client.values import check_key, check_path

if TYPE_CHECKING:
    from ecumene.client.session import Session
    from ecumene.client.subscriptions import Delivery


class Writes:
    """A list of writes anywhere in the world; the methods chain. Also the companions of an invoke."""

    def __init__(self) -> None:
        self.messages: list[operations_pb2.Write] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} writes>"

    def __len__(self) -> int:
        return len(self.messages)

    def set(self, path: str, key: str, value: Value, **conditions: Unpack[Conditions]) -> Self:
        """Replace an entry's value, creating it when it is absent."""
        return self._update(path, key, actions.set_value(value), conditions)

    def increment(self, path: str, key: str, amount: int | float = 1, **conditions: Unpack[Conditions]) -> Self:
        """Add to a counter, created by its first increment."""
        return self._update(path, key, actions.increment(amount), conditions)

    def append(self, path: str, key: str, item: Value, **conditions: Unpack[Conditions]) -> Self:
        """Append one item to a stream, created by its first append."""
        return self._update(path, key, actions.append(item), conditions)

    def merge(self, path: str, key: str, patch: Mapping[str, Json], **conditions: Unpack[Conditions]) -> Self:
        """RFC 7396 merge patch on a JSON value; an absent entry counts as {}."""
        return self._update(path, key, actions.merge(patch), conditions)

    def create(
        self,
        path: str,
        key: str,
        value: Value,
        *,
        position: Position | None = None,
        lease_id: int = 0,
        if_absent: bool = False,
        **conditions: Unpack[Conditions],
    ) -> Self:
        """Create an entry; the transaction fails with EntryExistsError when it is there, unless `if_absent`."""
        register = actions.register_entry(
            EntryKind.VALUE, value, if_absent=if_absent, lease_id=lease_id, position=position
        )
        return self._add(operations_pb2.Write(path=check_path(path), key=check_key(key), register=register), conditions)

    def move(self, path: str, key: str, position: Position | None, **conditions: Unpack[Conditions]) -> Self:
        """Move an entry; None = it leaves the space."""
        return self._update(path, key, space_actions.move(position), conditions)

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
        **conditions: Unpack[Conditions],
    ) -> Self:
        """Set a timer, see Environment.set_timer."""
        timeline = timeline_actions.set_timer(
            at_ns=at_ns, after_ns=after_ns, every_ns=every_ns, missed=missed, payload=payload, if_absent=if_absent
        )
        write = operations_pb2.Write(path=check_path(path), key=check_key(name), timeline=timeline)
        return self._add(write, conditions)

    def cancel_timer(self, path: str, name: str, *, if_present: bool = False, **conditions: Unpack[Conditions]) -> Self:
        """Cancel a timer."""
        timeline = timeline_actions.cancel_timer(if_present)
        write = operations_pb2.Write(path=check_path(path), key=check_key(name), timeline=timeline)
        return self._add(write, conditions)

    def control_clock(self, path: str, **change: Unpack[ClockChange]) -> Self:
        """Let the environment's own clock do one thing, such as `advance_by_ns=…` or `pause=True`.

        An advance is on its way when the transaction has committed; timers fire in revisions of their own.
        """
        timeline = timeline_pb2.Timeline(control=timeline_actions.control_clock(change))
        return self._add(operations_pb2.Write(path=check_path(path), timeline=timeline), {})

    def delete(self, path: str, key: str, *, if_present: bool = False, **conditions: Unpack[Conditions]) -> Self:
        """Delete an entry."""
        delete = operations_pb2.Delete(if_present=if_present)
        return self._add(operations_pb2.Write(path=check_path(path), key=check_key(key), delete=delete), conditions)

    def begin_generation(
        self,
        path: str,
        gate: str,
        *,
        count_target: int | None = None,
        deadline_ms: int | None = None,
        **conditions: Unpack[Conditions],
    ) -> Self:
        """Begin the next generation of a gate; its number is the `sequence` of this write.

        Entries written from the next revision on are its reports, those of this transaction are not.
        """
        begin = operations_pb2.GateBegin(gate=gate, count_target=count_target, deadline_ms=deadline_ms)
        change = actions.update_environment(operations_pb2.EnvironmentUpdate(begin_generation=begin))
        return self._add(operations_pb2.Write(path=check_path(path), update=change), conditions)

    def acknowledge(self, delivery: Delivery) -> Self:
        """Move a subscription's cursor behind what was delivered, together with the effects: those come once.

        A consumer that was replaced meanwhile has no effect: FencedError.
        """
        acknowledge = actions.acknowledge(delivery.subscription, delivery.term, delivery.through_revision)
        self.messages.append(operations_pb2.Write(acknowledge=acknowledge))
        return self

    def _update(self, path: str, key: str, update: operations_pb2.Update, conditions: Mapping[str, Any]) -> Self:
        return self._add(operations_pb2.Write(path=check_path(path), key=check_key(key), update=update), conditions)

    def _add(self, write: operations_pb2.Write, conditions: Mapping[str, Any]) -> Self:
        for name, value in conditions.items():
            if is_condition(name, value):
                add_condition(write.preconditions.add(), name, value)
        self.messages.append(write)
        return self


class Transaction(Writes):
    """Writes of one transaction, what must hold for it, and optionally what to do instead.

    tx = world.transaction()
    tx.require("/bank", "ann", expect_version=3)
    tx.increment("/bank", "ann", -5).increment("/bank", "bob", 5)
    done = await tx.commit()
    """

    def __init__(self, session: Session, stamp: Stamp = PLAIN) -> None:
        super().__init__()
        self._session = session
        self._stamp = stamp
        self._conditions: list[operations_pb2.Precondition] = []
        self.otherwise: Writes = Writes()
        """Taken instead when a `require` fails; empty = the transaction is aborted."""

    def require(self, path: str, key: str = "", **conditions: Unpack[Conditions]) -> Self:
        """Let the transaction take effect only if this holds."""
        for name, value in conditions.items():
            if is_condition(name, value):
                condition = operations_pb2.Precondition(path=check_path(path), key="" if key == "" else check_key(key))
                add_condition(condition, name, value)
                self._conditions.append(condition)
        return self

    async def commit(self, *, producer: str = "", seq: int = 0, actor: str = "", cause: str = "") -> Transacted:
        """Send it, once; one revision, never seen in part. `producer` and `seq`: own identity, see WriteOptions.

        Raises:
            PreconditionFailedError: a condition did not hold, and there is no `otherwise`.
            GateClosedError: a `gate_generation` is over.
            LimitExceededError: too many writes or bytes.
            EcumeneError: a write cannot be done, so none was; or the session ended.
        """
        transact = operations_pb2.Transact(
            preconditions=self._conditions, writes=self.messages, otherwise=self.otherwise.messages
        )
        # A transaction stands with the root: it names the place of each write itself.
        op = session_pb2.Op(transact=transact)
        options = {"producer": producer, "seq": seq, "actor": actor, "cause": cause}
        outcome = await self._session.issue("/", op, self._stamp.put_on(options))
        assert isinstance(outcome, Transacted)
        return outcome

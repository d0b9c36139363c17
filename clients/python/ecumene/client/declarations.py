"""What an environment is declared to be, and what it computes by itself: aggregates and gates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from env_api.v1 import operations_pb2, queries_pb2, session_pb2

from ecumene.client import actions, space_actions, timeline_actions
from ecumene.client.actions import WriteOptions
from ecumene.client.clocks import Clock
from ecumene.client.model import Aggregate, Aggregates, EnvironmentInfo, Gate, GateState, Grant, Json, Written
from ecumene.client.reasons import GateNotFoundError
from ecumene.client.spaces import Proximity, Region, Space
from ecumene.client.values import encode_object

if TYPE_CHECKING:
    from ecumene.client.op_calls import OpCalls


class Declarations:
    """What an environment is; `Environment` has these methods."""

    _ops: OpCalls
    path: str

    async def register(
        self,
        *,
        kind: str = "",
        labels: Mapping[str, str] | None = None,
        config: Mapping[str, Json] | None = None,
        entry_schema: Mapping[str, Json] | None = None,
        aggregates: Sequence[Aggregate] = (),
        gates: Sequence[Gate] = (),
        grants: Sequence[Grant] = (),
        lease_id: int = 0,
        if_absent: bool = False,
        clock: Clock | None = None,
        space: Space | None = None,
        regions: Sequence[Region] = (),
        proximities: Sequence[Proximity] = (),
        **options: Unpack[WriteOptions],
    ) -> Written:
        """Create the environment; its parent must exist. `kind` "" = basic, else a behaviour of the server.

        `entry_schema`: JSON schema that values of its entries must meet. `grants`: other groups that may see it.
        `lease_id`: a lease with which it goes. `clock`, `space`: a time and a space of its own, with the regions and
        distances in the space that make events.

        Raises:
            EnvironmentExistsError: it exists, unless `if_absent`; that leaves it as it is.
            KindNotFoundError: no such behaviour is installed.
        """
        register = actions.register_environment(
            kind=kind,
            labels=labels or {},
            config=config,
            entry_schema=entry_schema,
            aggregates=aggregates,
            gates=gates,
            grants=grants,
            lease_id=lease_id,
            if_absent=if_absent,
            clock=clock,
            space=space,
            regions=regions,
            proximities=proximities,
        )
        return await self._ops.answer(self._ops.write(session_pb2.Op(register=register), options), Written)

    async def describe(self) -> EnvironmentInfo:
        """The environment's declarations, state of its gates, and counts."""
        return await self._ops.answer(self._ops.read_whole(queries_pb2.Query(get=queries_pb2.Get())), EnvironmentInfo)

    async def change(
        self,
        *,
        set_labels: Mapping[str, str] | None = None,
        remove_labels: Sequence[str] = (),
        merge_config: Mapping[str, Json] | None = None,
        set_aggregates: Sequence[Aggregate] = (),
        remove_aggregates: Sequence[str] = (),
        set_gates: Sequence[Gate] = (),
        remove_gates: Sequence[str] = (),
        set_grants: Sequence[Grant] = (),
        remove_grants: Sequence[str] = (),
        clock: Clock | None = None,
        space: Space | None = None,
        set_regions: Sequence[Region] = (),
        remove_regions: Sequence[str] = (),
        set_proximities: Sequence[Proximity] = (),
        remove_proximities: Sequence[str] = (),
        **options: Unpack[WriteOptions],
    ) -> Written:
        """Change the environment's declarations; what is not given stays. A new aggregate scans entries once.

        Watches that rest on a grant which is taken away end with PermissionDeniedError.

        Raises:
            ClockExistsError, SpaceExistsError: it has one already; that stays.
            SpaceNotFoundError, RegionNotFoundError: it has no such region or proximity.
        """
        change = operations_pb2.EnvironmentUpdate(
            set_labels=dict(set_labels or {}),
            remove_labels=remove_labels,
            merge_config_json=encode_object(merge_config, "merge_config: give a dict") if merge_config else b"",
            set_aggregates=[actions.fill_aggregate(aggregate) for aggregate in set_aggregates],
            remove_aggregates=remove_aggregates,
            set_gates=[actions.fill_gate(gate) for gate in set_gates],
            remove_gates=remove_gates,
            set_grants=[actions.fill_grant(grant) for grant in set_grants],
            remove_grants=remove_grants,
            clock=None if clock is None else timeline_actions.fill_clock(clock),
            space=space_actions.fill_space(space),
            set_regions=[space_actions.fill_region(region) for region in set_regions],
            remove_regions=remove_regions,
            set_proximities=[space_actions.fill_proximity(proximity) for proximity in set_proximities],
            remove_proximities=remove_proximities,
        )
        return await self._ops.answer(self._ops.update_whole(actions.update_environment(change), options), Written)

    async def unregister(
        self, *, recursive: bool = False, if_present: bool = False, **options: Unpack[WriteOptions]
    ) -> Written:
        """Delete the environment with its entries.

        Raises:
            HasChildrenError: it has children, and `recursive` is not given.
        """
        delete = operations_pb2.Delete(recursive=recursive, if_present=if_present)
        return await self._ops.answer(self._ops.write(session_pb2.Op(delete=delete), options), Written)

    async def aggregates(self, *names: str) -> Aggregates:
        """Values of the aggregates named (none = all), and the state of the gates."""
        return await self._ops.answer(self._ops.read_whole(_ask_aggregates(names)), Aggregates)

    async def begin_generation(
        self,
        gate: str,
        *,
        count_target: int | None = None,
        deadline_ms: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> GateState:
        """Begin the gate's next generation; entries written from now on are its reports.

        Returns the gate as read right behind it: `generation` is the one begun, unless someone else began
        another in between (then `begin_revision` differs). `count_target` and `deadline_ms` replace the gate's
        own for this and later generations.

        Raises:
            GateNotFoundError: the environment has no such gate.
        """
        begin = operations_pb2.GateBegin(gate=gate, count_target=count_target, deadline_ms=deadline_ms)
        change = operations_pb2.EnvironmentUpdate(begin_generation=begin)
        # Both are issued in this loop step, so they travel and take effect next to each other.
        begun = self._ops.update_whole(actions.update_environment(change), options)
        states = self._ops.read_whole(_ask_aggregates(()))
        _, read = await asyncio.gather(self._ops.answer(begun, Written), self._ops.answer(states, Aggregates))
        if gate not in read.gates:
            raise GateNotFoundError(f"no gate {gate!r} in {self.path}")
        return read.gates[gate]

    async def open_gate(self, gate: str, generation: int, **options: Unpack[WriteOptions]) -> Written:
        """Open the gate now, if it still collects this generation.

        Raises:
            GateClosedError: it does not.
        """
        change = operations_pb2.EnvironmentUpdate(open_gate=operations_pb2.GateOpen(gate=gate, generation=generation))
        return await self._ops.answer(self._ops.update_whole(actions.update_environment(change), options), Written)


def _ask_aggregates(names: Sequence[str]) -> queries_pb2.Query:
    return queries_pb2.Query(aggregates=queries_pb2.ReadAggregates(names=names))

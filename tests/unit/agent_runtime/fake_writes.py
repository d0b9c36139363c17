"""What is written to a fake world: blocks and transactions, and how they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ecumene.client import ErrorDetails, FencedError, FrameResult, GateClosedError, SequencePassedError, Transacted
from ecumene.client.rows import encode_block
from env_api.v1 import errors_pb2, operations_pb2, session_pb2

if TYPE_CHECKING:
    from tests.unit.agent_runtime.fake_world import FakeWorld


class FakeFrames:
    """Stands in for `FrameWriter`; remembers every block."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self.blocks: list[tuple[list[str], list[Any], int]] = []

    async def submit_block(
        self,
        path: str,
        keys: Sequence[str],
        values: Sequence[Any],
        *,
        producers: Sequence[str] | None,
        seqs: int,
        gate_generation: int = 0,
        actors: Sequence[str] | None = None,
        causes: Sequence[str] | None = None,
        add: bool = False,
        positions: Any = None,
    ) -> asyncio.Future[FrameResult]:
        # As the SDK does: what no frame can hold fails here.
        encode_block(
            1,
            path,
            keys,
            values,
            producers=producers,
            seqs=seqs,
            gate_generation=gate_generation,
            causes=causes,
            add=add,
            positions=positions,
        )
        world = self._world
        world.positions.update(zip(keys, positions or (), strict=False))
        self.blocks.append((list(keys), list(values), gate_generation))
        answer = session_pb2.FrameAnswer(seq=len(self.blocks), count=len(keys), base_revision=world.revision)
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            cause = causes[0] if causes else ""
            if producers is None:
                world.revision += 1
                world.store(path, key, value, cause=cause)
                continue
            revision, reason, duplicate = world.apply(producers[index], seqs, gate_generation, path, key, value, cause)
            if reason or duplicate:
                answer.without_revision.append(index)
                answer.outcomes.append(make_outcome(index, revision, reason, duplicate))
        answer.revision = world.revision
        future: asyncio.Future[FrameResult] = asyncio.get_running_loop().create_future()
        if world.hold_answers:
            world.held.append((future, FrameResult([answer])))
        else:
            future.set_result(FrameResult([answer]))
        return future


def make_outcome(index: int, revision: int, reason: str, duplicate: bool) -> operations_pb2.OpOutcome:
    outcome = operations_pb2.OpOutcome(index=index, duplicate=duplicate)
    if reason:
        outcome.error.reason = errors_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}")
        outcome.error.code = 9
    else:
        outcome.written.revision = revision
        outcome.written.changed = True
    return outcome


class FakeTransaction:
    """Stands in for `Transaction`: its conditions are those of gates."""

    def __init__(self, world: FakeWorld, is_otherwise: bool = False) -> None:
        self._world = world
        self.writes: list[tuple[str, str, Any]] = []
        self._generations: list[tuple[str, int]] = []
        self._required: list[tuple[str, int]] = []
        self.otherwise = FakeTransaction(world, is_otherwise=True) if not is_otherwise else None

    def set(self, path: str, key: str, value: Any, *, gate_generation: int = 0) -> None:
        self.writes.append((path, key, value))
        self._generations.append((path, gate_generation))

    append = increment = set

    def require(self, path: str, *, gate_generation: int) -> None:
        operations_pb2.Precondition(gate_generation=gate_generation)  # as the SDK does
        self._required.append((path, gate_generation))

    async def commit(self, *, producer: str = "", seq: int = 0, actor: str = "", cause: str = "") -> Transacted:
        world = self._world
        if not producer:  # books of the runtime: no turn, and under no gate
            for path, key, value in self.writes:
                world.store(path, key, value)
            return Transacted(revision=world.revision)
        last, outcome = world.outcomes.get(producer, (0, (0, "")))
        if last == seq:
            return Transacted(revision=outcome[0], duplicate=True)
        if last > seq:
            raise SequencePassedError(ErrorDetails(reason="SEQUENCE_PASSED"))
        if not world.fence_holds:
            raise FencedError(ErrorDetails(reason="FENCED"))
        world.transactions.append((producer, seq, self.writes))
        assert self._required or not (self.otherwise and self.otherwise.writes), "a server refuses such"
        is_late = any(world.collecting.get(path) != generation for path, generation in self._required)
        for path, generation in self._generations:
            if generation and world.collecting.get(path) != generation:
                raise GateClosedError(ErrorDetails(reason="GATE_CLOSED"))
        world.revision += 1
        for path, key, value in self.otherwise.writes if is_late and self.otherwise else self.writes:
            world.store(path, key, value, producer, seq, cause)
        world.outcomes[producer] = seq, (world.revision, "")
        return Transacted(revision=world.revision, otherwise=is_late)

"""The way out: one op a turn, equal ops of many agents packed into frames.

    turn ──► send ──► block of (path, kind, generation, seq) ──► full, or linger over ──► frame ──► outcome
                ├───► transaction, when a turn has several actions, one that no block carries, or leaves a memory
                └───► operation of a behaviour, with all else that the turn writes as its companions

Frames go in the order in which their blocks were begun, and an agent's op never waits in two blocks, so
that an agent's ops keep their order. Repetition after a broken connection is the SDK's, which sends the
same frames again under their numbers.

An outbox belongs to one part, and sends behind its fence. Once the world has said that the fence has fallen, or the
part was given up, nothing is sent and nobody is answered any more: who waits is about to be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from ecumene.client import EcumeneError, FencedError, FrameResult, InvalidArgumentError, Value, World

from agent_runtime.actions.settlement import Settled, settle_block
from agent_runtime.actions.turn_ops import TurnOps
from agent_runtime.actions.validation import measure_value
from agent_runtime.model.actions import Action, Outcome, Remembered
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.slots import Slots
from agent_runtime.settings import WorkerSettings

BLOCK_BYTES_MAX = 1024 * 1024
_BLOCK_CHANGES = frozenset({"set", "increment"})
_BLOCK_KINDS = {float: "double", int: "int", str: "string", dict: "json", list: "json", tuple: "json"}


class _BlockKey(NamedTuple):
    path: str
    kind: str
    adds: bool
    generation: int
    seq: int
    cause: str


class _Block:
    """Equal ops that wait to go together."""

    __slots__ = ("bytes", "futures", "key", "keys", "producers", "timer", "values")

    def __init__(self, key: _BlockKey) -> None:
        self.key = key
        self.keys: list[str] = []
        self.values: list[Value] = []
        self.producers: list[str] = []
        self.futures: list[asyncio.Future[Outcome]] = []
        self.bytes = 0
        self.timer: asyncio.TimerHandle | None = None


class Outbox:
    """Sends ops of one part. At most `ops_waiting_max` single ops are unanswered; then `send` waits."""

    def __init__(
        self,
        world: World,
        tasks: OwnedTasks,
        settings: WorkerSettings,
        on_fenced: Callable[[str], None] | None = None,
        actor: str = "",
    ) -> None:
        """`on_fenced` is told, once, that the world takes nothing from here any more; `actor` stands on every op."""
        self._world = world
        self._actor = actor
        self._tasks = tasks
        self._turn_ops = TurnOps(world, actor, self.lose)
        self._on_fenced = on_fenced
        self.is_closed = False
        """Nothing is sent any more."""
        self._ops_max = settings.block_ops_max
        self._linger_s = settings.linger_ms / 1000
        self._room = Slots(settings.ops_waiting_max)
        self._blocks: dict[_BlockKey, _Block] = {}
        self._waiting: dict[str, _Block] = {}
        self._loop = asyncio.get_running_loop()
        self.frames = 0
        self.ops = 0

    async def send(
        self,
        producer: str,
        seq: int,
        actions: Sequence[Action],
        cause: str = "",
        remembered: Sequence[Remembered] = (),
    ) -> Outcome:
        """All effects of one turn as one op, `cause` its event; returns what became of it, failures too.

        What is `remembered` is written with them, or alone if a gate of theirs has closed (GateClosedError then).
        Cancelling the wait takes nothing back: what was packed is sent.
        """
        await self._room.acquire()
        try:
            if self.is_closed:
                await self._never()
            is_plain = len(actions) == 1 and not remembered and actions[0].change in _BLOCK_CHANGES
            if is_plain and (kind := _BLOCK_KINDS.get(type(actions[0].value))):
                return await self._pack(producer, seq, actions[0], kind, cause)
            await self._let_go_first(producer)
            self.ops += 1
            if any(action.change == "invoke" for action in actions):
                return await self._turn_ops.invoke(producer, seq, actions, cause, remembered)
            return await self._turn_ops.transact(producer, seq, actions, cause, remembered)
        finally:
            self._room.release()

    async def submit(
        self,
        path: str,
        generation: int,
        seq: int,
        keys: Sequence[str],
        values: Sequence[Value],
        cause: str = "",
        *,
        positions: Sequence[Sequence[float]] | None = None,
        is_repeatable: bool = True,
    ) -> asyncio.Future[FrameResult]:
        """A frame of its own: sets one value a key; the keys are the producers. Waits while the world has its fill.

        `positions`: where each entry is placed as it is set.
        Not `is_repeatable`: there are no producers, so that it would take effect anew when it was sent again.

        Raises EcumeneError if the session ended.
        """
        if self.is_closed:
            await self._never()
        self.frames += 1
        self.ops += len(keys)
        causes, actors = _all_the_same(cause), _all_the_same(self._actor)
        return await self._world.frames.submit_block(
            path,
            keys,
            values,
            producers=keys if is_repeatable else None,
            seqs=seq if is_repeatable else 0,
            gate_generation=generation,
            actors=actors,
            causes=causes,
            positions=positions,
        )

    async def settle(self, answer: asyncio.Future[FrameResult]) -> Settled:
        """What became of a frame of `submit`. Raises EcumeneError if the session ended."""
        settled = settle_block(await answer)
        for outcome in settled.others.values():
            if isinstance(outcome.error, FencedError):
                await self.lose(outcome.error)
        return settled

    async def lose(self, error: FencedError) -> NoReturn:
        """The part is somebody else's: say so, and let whoever waits wait for its end."""
        if not self.is_closed:
            self.close()
            if self._on_fenced is not None:
                self._on_fenced(" ".join(str(error).split()))
        await self._never()

    def close(self) -> None:
        """Send nothing any more, not even what lingers."""
        self.is_closed = True
        for block in self._blocks.values():
            if block.timer is not None:
                block.timer.cancel()
        self._blocks.clear()

    def flush(self) -> None:
        """Send what lingers."""
        for block in list(self._blocks.values()):
            self._dispatch(block)

    def _pack(self, producer: str, seq: int, action: Action, kind: str, cause: str) -> asyncio.Future[Outcome]:
        key = _BlockKey(action.path, kind, action.change == "increment", action.gate_generation, seq, cause)
        block = self._blocks.get(key)
        earlier = self._waiting.get(producer)
        if earlier is not None and earlier is not block:
            self._dispatch(earlier)
        if block is None:
            block = self._blocks[key] = _Block(key)
            block.timer = self._loop.call_later(self._linger_s, self._dispatch, block)
        future: asyncio.Future[Outcome] = self._loop.create_future()
        block.keys.append(action.key)
        block.values.append(action.value)
        block.producers.append(producer)
        block.futures.append(future)
        self._waiting[producer] = block
        if kind in ("string", "json"):
            block.bytes += measure_value(action.value) or 0
        if len(block.keys) >= self._ops_max or block.bytes >= BLOCK_BYTES_MAX:
            self._dispatch(block)
        return future

    def _dispatch(self, block: _Block) -> None:
        if self._blocks.pop(block.key, None) is None:
            return
        if block.timer is not None:
            block.timer.cancel()
        for producer in block.producers:
            self._waiting.pop(producer, None)
        self.frames += 1
        self.ops += len(block.keys)
        self._tasks.start(self._carry(block), "outbox block")

    async def _carry(self, block: _Block) -> None:
        key = block.key
        try:
            answer = await self._world.frames.submit_block(
                key.path,
                block.keys,
                block.values,
                producers=block.producers,
                seqs=key.seq,
                gate_generation=key.generation,
                actors=_all_the_same(self._actor),
                causes=_all_the_same(key.cause),
                add=key.adds,
            )
            settled = await self.settle(answer)
        except InvalidArgumentError as error:  # what no frame can hold; what the world refuses is told with each op
            await self._carry_apart(block, error)
            return
        except EcumeneError as error:
            refused = Outcome(error=error)
            _resolve(block.futures, [refused] * len(block.futures))
            return
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            await self._carry_apart(block, error)
            return
        _resolve(block.futures, [settled.outcome(index) for index in range(len(block.futures))])

    async def _carry_apart(self, block: _Block, error: Exception) -> None:
        """Some op of a block cannot be sent: each goes alone, so that only that one fails, as a defect of its turn."""
        if len(block.futures) == 1:
            if not block.futures[0].done():
                block.futures[0].set_exception(error)
            return
        columns = (block.keys, block.values, block.producers, block.futures)
        for key, value, producer, future in zip(*columns, strict=True):
            alone = _Block(block.key)
            alone.keys, alone.values, alone.producers, alone.futures = [key], [value], [producer], [future]
            await self._carry(alone)

    async def _let_go_first(self, producer: str) -> None:
        """What waits in a block must not be overtaken by what the same agent sends now."""
        earlier = self._waiting.get(producer)
        if earlier is not None:
            place = earlier.producers.index(producer)
            self._dispatch(earlier)
            # Its own op alone, and as an onlooker: whoever waits for it, or for another of the block, may be cancelled.
            await asyncio.wait({earlier.futures[place]})

    async def _never(self) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers")


def _all_the_same(name: str) -> Sequence[str] | None:
    """A column in which every op of a frame has the same."""
    return (name,) if name else None


def _resolve(futures: list[asyncio.Future[Outcome]], outcomes: list[Outcome]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if not future.done():
            future.set_result(outcome)

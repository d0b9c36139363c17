"""Space of an environment: moving its entries, and asking who is near."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from env_api.v1 import queries_pb2, session_pb2

from ecumene.client import actions, space_actions
from ecumene.client.actions import WriteOptions
from ecumene.client.bulk import BulkResult, send_in_frames
from ecumene.client.clocks import refuse_field
from ecumene.client.frame_result import FrameResult
from ecumene.client.frames import Frame
from ecumene.client.model import EntryKind, Value, Written
from ecumene.client.spaces import Box, Position, as_position
from ecumene.client.surroundings import Nearby, Neighbours, Way
from ecumene.client.values import check_key, refuse_value

if TYPE_CHECKING:
    from ecumene.client.op_calls import OpCalls
    from ecumene.client.world import World


class SpaceOps:
    """What an environment does with space; `Environment` has these methods.

    All raise SpaceNotFoundError where it has none, InvalidPositionError for what is no place of it, and NotPlacedError
    for an entry that is asked about and is nowhere.
    """

    _world: World
    _ops: OpCalls
    path: str

    async def move(self, key: str, position: Position | None, **options: Unpack[WriteOptions]) -> Written:
        """Move an entry that exists; None = it leaves the space. Events of what it enters and leaves come with it.

        Raises:
            EntryNotFoundError: there is none.
            CellFullError: the cell or node holds as many as it may.
        """
        return await self._ops.answer(self._ops.update(key, space_actions.move(position), options), Written)

    async def near(
        self,
        who: str | Position | None = None,
        *,
        radius: float | None = None,
        nearest: int | None = None,
        adjacent: bool = False,
        box: Box | None = None,
        hops: bool = False,
        limit: int = 0,
    ) -> Nearby:
        """Entries near the entry `who`, which is left out itself, or near a position; exactly one way to say how near.

        `radius`: within this distance. `nearest`: so many at most. `adjacent`: in the same cell or node and those next
        to it. `box`: inside, and `who` is not given. `hops`: graphs count edges, whatever their weights. At most
        `limit` are told (0 = 10,000), `Nearby.more` says whether there are others.
        """
        ask = queries_pb2.Nearby()
        ways = {"radius": radius, "nearest": nearest, "adjacent": adjacent or None}
        _fill_one_of(ask, "near", ways, {"hops": hops, "limit": limit}, box)
        if box is not None and who is not None:
            raise refuse_field("near: a box is its own place, without an entry or a position")
        if box is None and who is None:
            raise refuse_field("near whom? give a key or a position")
        if isinstance(who, str):
            return await self._ops.answer(self._ops.read(who, queries_pb2.Query(nearby=ask)), Nearby)
        if who is not None:
            ask.position.extend(as_position(who))
        return await self._ops.answer(self._ops.read_whole(queries_pb2.Query(nearby=ask)), Nearby)

    async def distance(self, start: str | Position, end: str | Position, *, hops: bool = False) -> float:
        """How far it is from an entry or a position to another one, the shortest way. `hops`: see `near`.

        Raises:
            UnreachableError: no way leads there.
        """
        return (await self.way(start, end, hops=hops)).distance

    async def way(self, start: str | Position, end: str | Position, *, hops: bool = False) -> Way:
        """`distance`, with the nodes of the way on a graph."""
        ask = queries_pb2.Distance(hops=hops)
        if isinstance(start, str):
            ask.from_key = check_key(start)
        else:
            getattr(ask, "from").extend(as_position(start))
        if isinstance(end, str):
            ask.to_key = check_key(end)
        else:
            ask.to.extend(as_position(end))
        return await self._ops.answer(self._ops.read_whole(queries_pb2.Query(distance=ask)), Way)

    async def neighbours(
        self,
        *,
        radius: float | None = None,
        nearest: int | None = None,
        adjacent: bool = False,
        keys: Sequence[str] = (),
        hops: bool = False,
    ) -> Neighbours:
        """Everybody's neighbours at one revision, for those who act for many; `keys` = only those of these entries."""
        ask = queries_pb2.Neighbours(keys=_list_keys(keys))
        ways = {"radius": radius, "nearest": nearest, "adjacent": adjacent or None}
        _fill_one_of(ask, "neighbours", ways, {"hops": hops})
        return await self._ops.answer(self._ops.read_whole(queries_pb2.Query(neighbours=ask)), Neighbours)

    async def move_many(self, keys: Iterable[str], positions: Any) -> BulkResult:
        """Move many entries, each in a revision of its own, in their order; who cannot move stays and is told.

        A move that was refused for now is made later, after others that were given behind it, as FrameWriter says.

        `positions`: one a key, or their coordinates one after the other: a list, an array of the standard library or
        of numpy, of one or two dimensions. In blocks of 1,000: costs client and server a fraction of `move`.
        """
        return await self._send_blocks(keys, None, positions)

    async def set_many(self, keys: Iterable[str], values: Iterable[Value], positions: Any = None) -> BulkResult:
        """Set many entries, and place them; as `move_many`. Values are of one kind, see FrameWriter.submit_block."""
        return await self._send_blocks(keys, values, positions)

    async def create_many(
        self,
        keys: Iterable[str],
        values: Iterable[Value],
        positions: Any = None,
        *,
        lease_id: int = 0,
        if_absent: bool = False,
    ) -> BulkResult:
        """Create many entries, and place them; as `move_many`. One that exists is a failure, unless `if_absent`."""
        keys, values = _list_keys(keys), _list_values(values)
        values = values.tolist() if hasattr(values, "tolist") else values
        places = _split_places(keys, positions)
        if len(values) != len(keys):
            raise refuse_value(f"{len(values)} values for {len(keys)} keys")

        async def submit(part: slice) -> asyncio.Future[FrameResult]:
            frame = Frame(stamp=self._world.stamp)
            for row in range(*part.indices(len(keys))):
                position = None if places is None else places[row]
                register = actions.register_entry(
                    EntryKind.VALUE, values[row], if_absent=if_absent, lease_id=lease_id, position=position
                )
                frame.add(self.path, session_pb2.Op(key=keys[row], register=register), {})
            return await self._world.frames.submit(frame)

        return await send_in_frames(keys, self._world.session.frame_ops_max, submit)

    async def _send_blocks(self, names: Iterable[str], told: Iterable[Value] | None, positions: Any) -> BulkResult:
        keys, values = _list_keys(names), None if told is None else _list_values(told)
        flat, dimensions = (None, 0) if positions is None else space_actions.flatten_positions(positions, len(keys))
        if values is not None and len(values) != len(keys):
            raise refuse_value(f"{len(values)} values for {len(keys)} keys")

        async def submit(part: slice) -> asyncio.Future[FrameResult]:
            return await self._world.frames.submit_block(
                self.path,
                keys[part],
                () if values is None else values[part],
                positions=None if flat is None else flat[part.start * dimensions : part.stop * dimensions],
            )

        return await send_in_frames(keys, self._world.session.frame_ops_max, submit)


def _list_keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):  # whose characters would be taken for keys
        raise refuse_field(f"keys of many are a list, such as [{keys!r}]")
    return [check_key(key) for key in keys]


def _list_values(values: Iterable[Value]) -> Sequence[Value]:
    """Arrays of numpy and of the standard library stay what they are: they are sent as such."""
    if isinstance(values, str | bytes | Mapping):
        raise refuse_value(f"values of many are a list, one a key, not {type(values).__name__}")
    return values if hasattr(values, "__len__") and hasattr(values, "__getitem__") else list(values)  # type: ignore[return-value]


def _split_places(keys: Sequence[str], positions: Any) -> list[tuple[float, ...]] | None:
    if positions is None:
        return None
    flat, dimensions = space_actions.flatten_positions(positions, len(keys))
    return [tuple(flat[row * dimensions : (row + 1) * dimensions]) for row in range(len(keys))]


def _fill_one_of(
    ask: queries_pb2.Nearby | queries_pb2.Neighbours,
    verb: str,
    ways: dict[str, Any],
    more: dict[str, Any],
    box: Box | None = None,
) -> None:
    """How near: exactly one way to say it, and what else restricts."""
    given = {name: value for name, value in ways.items() if value is not None}
    if len(given) + (box is not None) != 1:
        names = ", ".join([*ways, *(["box"] if isinstance(ask, queries_pb2.Nearby) else [])])
        raise refuse_field(f"{verb}: give exactly one of {names}")
    for name, value in (given | more).items():
        try:
            setattr(ask, name, value)
        except (TypeError, ValueError) as error:
            raise refuse_field(f"{verb}: {name}: {error}") from error
    if box is not None and isinstance(ask, queries_pb2.Nearby):
        if not isinstance(box, Box):
            raise refuse_field(f"{verb}: box: a Box((0, 0), (2, 2)), not {box!r}")
        ask.box.CopyFrom(space_actions.fill_box(box))

"""Op frames under construction: rows of any op, or one block of equal ops in columns."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from env_api.v1 import session_pb2

from ecumene.client.actions import add_condition, is_condition
from ecumene.client.clocks import refuse_field, refusing
from ecumene.client.model import Value
from ecumene.client.space_actions import flatten_positions
from ecumene.client.stamps import PLAIN, Fence, Stamp
from ecumene.client.values import OP_FIELDS, check_key, check_path, check_text, convert_value, encode_json, refuse_value

# Options that have a column of their own in a frame, and what "none" is in it.
_COLUMNS: dict[str, tuple[str, Any]] = {
    "producer": ("producers", ""),
    "seq": ("producer_seqs", 0),
    "gate_generation": ("gate_generations", 0),
    "expect_version": ("expect_versions", 0),
    "actor": ("actors", ""),
    "cause": ("causes", ""),
    "group": ("groups", 0),
    "fence": ("fence", 0),
}


_OF_STAMPS = frozenset({"group", "fence"})
_UINT64_MAX = 2**64 - 1
_BLOCK_COLUMNS = ("ints", "doubles", "strings", "json")

# Those that never stand with the op itself.
_IN_COLUMNS = frozenset(_COLUMNS) - {"expect_version"}


class Rows:
    """Ops of one frame, in order. Columns of options come into being when the first op needs them."""

    __slots__ = ("_columns", "_fences", "_frame", "_paths", "_request")

    def __init__(self) -> None:
        self._request = session_pb2.SessionRequest()
        self._frame = self._request.frame
        self._paths: dict[str, int] = {}
        self._columns: dict[str, list[Any]] = {}
        self._fences: dict[Fence, int] = {}

    def __len__(self) -> int:
        return len(self._frame.ops)

    def append_set(self, path: str, key: str, value: Value, options: Mapping[str, Any]) -> int:
        """Add a row that sets a value; returns its index. Adds nothing when it raises.

        Raises:
            InvalidValueError: no kind can hold the value.
        """
        if type(value) is float and _IN_COLUMNS.issuperset(options):
            # The commonest row by far: a report of a number.
            ops = self._frame.ops
            index = len(ops)
            place = self._place(path)
            try:
                ops.add(path=place, key=key, set_double=value)
            except (TypeError, ValueError):
                del ops[index:]  # half a row
                check_key(key)
                raise
            for name, option in options.items():
                if option:
                    self._put(name, index, option)
            return index
        kind, wire = convert_value(value)
        op = session_pb2.Op(key=check_key(key), **{OP_FIELDS[kind]: wire})
        apply_conditions(op, options)
        return self.append(path, op, options)

    def append(self, path: str, op: session_pb2.Op, options: Mapping[str, Any]) -> int:
        """Add a row whose conditions are in it already; returns its index."""
        index = len(self._frame.ops)
        op.path = self._place(path)
        self._frame.ops.append(op)
        for name, value in options.items():
            if name in _COLUMNS and value and value != _COLUMNS[name][1]:
                self._put(name, index, value)
        return index

    def row(self, index: int) -> tuple[str, session_pb2.Op, dict[str, Any]]:
        """A row as it was added; see `read_row`. Of a frame that was encoded."""
        return read_row(self._frame, index)

    def places(self, start: int = 0) -> Iterator[tuple[str, session_pb2.Op]]:
        """Path and op of each row, from one on."""
        paths = list(self._paths)
        return ((paths[op.path], op) for op in self._frame.ops[start:])

    def encode(self, seq: int, *, return_versions: bool = False, deadline_ms: int = 0) -> bytes:
        """The message that carries the frame. Call it once; nothing may be added later."""
        frame = self._frame
        count = len(frame.ops)
        for name, column in self._columns.items():
            field, default = _COLUMNS[name]
            with refusing(name):
                getattr(frame, field).extend(column + [default] * (count - len(column)))
        self._columns.clear()
        frame.seq = seq
        frame.paths.extend(self._paths)
        fill_fences(frame, self._fences)
        frame.return_versions = return_versions
        with refusing("deadline_ms"):
            frame.deadline_ms = deadline_ms
        return self._request.SerializeToString()

    def _place(self, path: str) -> int:
        place = self._paths.get(path)
        if place is None:
            place = self._paths[check_path(path)] = len(self._paths)
        return place

    def _put(self, name: str, index: int, value: Any) -> None:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = []
        if name == "fence":
            value = self._fences.setdefault(value, len(self._fences) + 1)
        if len(column) < index:
            column.extend([_COLUMNS[name][1]] * (index - len(column)))
        column.append(value)


def read_row(frame: session_pb2.OpFrame, index: int) -> tuple[str, session_pb2.Op, dict[str, Any]]:
    """A row of a frame as it was added: path, op, options."""
    op = session_pb2.Op()
    op.CopyFrom(frame.ops[index])
    options = {}
    for name, (field, default) in _COLUMNS.items():
        column = getattr(frame, field)
        if column and column[index] != default:
            options[name] = column[index]
    if number := options.get("fence"):
        fence = frame.fences[number - 1]
        options["fence"] = Fence(fence.path, fence.key, fence.created_revision)
    return frame.paths[op.path], op, options


def select_block(frame: session_pb2.OpFrame, indexes: Sequence[int]) -> session_pb2.OpFrame:
    """A frame in columns with some of its ops, in their order; without a number."""
    count = len(frame.block.keys)
    chosen = session_pb2.OpFrame()
    chosen.CopyFrom(frame)
    chosen.seq = 0
    for field, _ in _COLUMNS.values():
        _select(getattr(chosen, field), getattr(frame, field), count, indexes)
    for field in ("keys", *_BLOCK_COLUMNS):
        _select(getattr(chosen.block, field), getattr(frame.block, field), count, indexes)
    if dimensions := frame.block.dimensions:
        flat = frame.block.coordinates[:]
        del chosen.block.coordinates[:]
        for index in indexes:
            chosen.block.coordinates.extend(flat[index * dimensions : (index + 1) * dimensions])
    return chosen


def _select(chosen: Any, column: Any, count: int, indexes: Sequence[int]) -> None:
    """Those of a column that has one element an op; one for all stays."""
    if len(column) == count:
        values = column[:]
        del chosen[:]
        chosen.extend([values[index] for index in indexes])


def apply_conditions(op: session_pb2.Op, options: Mapping[str, Any]) -> None:
    """Put those conditions of a write into its row that have no column, and look at what goes into columns.

    Raises:
        TypeError: an option is unknown.
        InvalidValueError: `expect_value` is no value.
        InvalidFieldError: another one has no form in a frame; in a column it would fail all others of the frame.
    """
    for name, value in options.items():
        if name in _COLUMNS and (value or name != "expect_version"):
            if value and name not in _OF_STAMPS:
                _check_column(name, value)
        elif is_condition(name, value):
            add_condition(op.preconditions.add(), name, value)


def _check_column(name: str, value: object) -> None:
    if isinstance(_COLUMNS[name][1], str):
        if not isinstance(value, str):
            raise refuse_field(f"{name}: give a str, not {type(value).__name__}")
        check_text(value)
        return
    with refusing(name):
        if not 0 <= operator.index(value) <= _UINT64_MAX:  # type: ignore[arg-type]
            raise refuse_field(f"{name}: a number from 0 to {_UINT64_MAX}, not {value}")


def measure_row(path: str, op: session_pb2.Op, options: Mapping[str, Any]) -> int:
    """Bytes that a row adds to a frame, rounded up: its path is counted as if it stood in no other row."""
    size = op.ByteSize() + 4 * len(path) + 16
    for value in options.values():
        if type(value) is str:
            size += 4 * len(value) + 8
        else:
            size += 12 if not isinstance(value, Fence) else 4 * (len(value.path) + len(value.key)) + 24
    return size


def encode_block(
    seq: int,
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
    stamp: Stamp = PLAIN,
    return_versions: bool = False,
    deadline_ms: int = 0,
) -> bytes:
    """The message of a frame of equal ops: each sets, or with `add` increments, one value under `path`.

    With `join_lease_id` each registers a member. With `positions` each is placed, too; without values it only moves.

    Raises:
        InvalidValueError: the values are of several kinds, of one that blocks do not carry, or not one a key.
        InvalidPositionError: not one position a key.
        InvalidPathError, InvalidFieldError: something else has no form in a frame.
    """
    count = len(keys)
    only_moves = positions is not None and len(values) == 0
    if len(values) != count and not only_moves:
        raise refuse_value(f"{len(values)} values for {count} keys")
    request = session_pb2.SessionRequest()
    frame = request.frame
    frame.seq = seq
    frame.paths.append(check_path(path))
    block = frame.block
    with refusing("keys"):
        block.keys.extend(keys)
    block.add = add
    with refusing("join_lease_id"):
        block.join_lease_id = join_lease_id
    _fill_values(block, values)
    if positions is not None:
        coordinates, block.dimensions = flatten_positions(positions, count)
        block.coordinates.extend(coordinates)
    _extend(frame.producers, producers, count, "producers")
    one_seq = ([seqs] if seqs else None) if isinstance(seqs, int) else seqs
    _extend(frame.producer_seqs, one_seq, count, "seqs")
    _extend(frame.gate_generations, [gate_generation] if gate_generation else None, count, "gate_generation")
    _extend(frame.actors, actors, count, "actors")
    _extend(frame.causes, causes, count, "causes")
    _put_stamp(frame, stamp)
    frame.return_versions = return_versions
    with refusing("deadline_ms"):
        frame.deadline_ms = deadline_ms
    return request.SerializeToString()


def fill_fences(frame: session_pb2.OpFrame, fences: Iterable[Fence]) -> None:
    """The table of a frame's fences."""
    for fence in fences:
        frame.fences.add(path=fence.path, key=fence.key, created_revision=fence.token)


def _put_stamp(frame: session_pb2.OpFrame, stamp: Stamp) -> None:
    """On all ops of a frame."""
    if stamp.group_index:
        frame.groups.append(stamp.group_index)
    if stamp.fence is not None:
        fill_fences(frame, (stamp.fence,))
        frame.fence.append(1)


def _fill_values(block: session_pb2.SetBlock, values: Sequence[Value]) -> None:
    if hasattr(values, "tolist"):  # arrays of numpy and of the standard library
        values = values.tolist()
    kinds = set(map(type, values))
    try:
        if kinds <= {float, int} and float in kinds:
            block.doubles.extend(values)  # type: ignore[arg-type]
        elif kinds == {int}:
            block.ints.extend(values)  # type: ignore[arg-type]
        elif block.add:
            raise refuse_value("a block that adds holds numbers")
        elif kinds == {str}:
            block.strings.extend(values)  # type: ignore[arg-type]
        elif kinds and kinds <= {dict, list, tuple}:
            # The same object many times is encoded once.
            texts = {id(value): value for value in values}
            encoded = {number: encode_json(value) for number, value in texts.items()}
            block.json.extend([encoded[id(value)] for value in values])
        elif kinds:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise refuse_value(f"a block holds floats, ints, strings or documents, of one kind; not {names}")
    except (ValueError, OverflowError) as error:
        raise refuse_value(f"a value does not fit its kind: {error}") from error


def _extend(column: Any, given: Sequence[Any] | None, count: int, name: str) -> None:
    if given is None:
        return
    if len(given) not in (1, count):
        raise refuse_value(f"{len(given)} {name} for {count} keys")
    with refusing(name):
        column.extend(given)

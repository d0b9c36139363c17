"""The ops of a frame that come one by one. A frame of one kind of report is read in one pass."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from env_api.v1 import session_pb2

from env_server.model.errors import InvalidRequest, Reason, WorldError
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count
from env_server.model.operations import Code, Precondition
from env_server.model.values import Value
from env_server.rpc.decode.ops import (
    Decoded,
    decode_acknowledge,
    decode_delete,
    decode_invoke,
    decode_preconditions,
    decode_query,
    decode_register,
    decode_transact,
    decode_update,
    read_double,
)
from env_server.rpc.decode.timelines import decode_timeline
from env_server.rpc.decode.values import Refusals, check_null, decode_json, refuse_doubles, refuse_strings

_SET: Final = int(Code.SET)
_ADD: Final = int(Code.ADD)
_REFUSED: Final = int(Code.REFUSED)


def decode_rows(ops: list[session_pb2.Op], frame: Frame, refusals: Refusals, limits: Limits) -> None:
    """Fills the columns of a frame that has none yet; an op that is at fault gets its refusal."""
    frame.path += [op.path for op in ops]
    frame.keys += [op.key for op in ops]
    actions = [op.WhichOneof("action") for op in ops]
    action = actions[0]
    if action in _UNIFORM and actions.count(action) == len(ops):  # the usual frame: reports of one kind
        values = [getattr(op, action) for op in ops]
        code, refuse = _UNIFORM[action]
        frame.codes += [code] * len(ops)
        frame.arguments += values
        if refuse is not None:
            refusals.update(refuse(values, action, limits))
    else:
        _decode_mixed(ops, actions, frame, refusals, limits)
    if any([op.preconditions for op in ops]):  # noqa: C419 - a list is faster than a generator
        frame.preconditions = _decode_conditions(ops, refusals, limits)


def _decode_mixed(
    ops: list[session_pb2.Op], actions: Sequence[str | None], frame: Frame, refusals: Refusals, limits: Limits
) -> None:
    codes, arguments = frame.codes, frame.arguments
    for index, (op, action) in enumerate(zip(ops, actions, strict=True)):
        if action is None:
            refusals[index] = InvalidRequest(Reason.INVALID_FIELD, "op.action", "must be set")
            codes.append(_REFUSED)
            arguments.append(None)
            continue
        code, read = _ACTIONS[action]
        argument: object
        try:
            if code is not None:
                argument = getattr(op, action) if read is None else read(getattr(op, action), action, limits)
            else:
                code, argument = _OPERATIONS[action](getattr(op, action), op.key, limits)
                if action in _PLACELESS:
                    frame.path[index] = 0
                    frame.paths = frame.paths or [ROOT]
        except WorldError as error:
            refusals[index] = error
            code = _REFUSED
            argument = None
        codes.append(code)
        arguments.append(argument)


def _decode_conditions(
    ops: list[session_pb2.Op], refusals: Refusals, limits: Limits
) -> dict[int, tuple[Precondition, ...]]:
    conditions = {}
    for index, op in enumerate(ops):
        if op.preconditions:
            try:
                conditions[index] = decode_preconditions(op.preconditions, limits)
            except WorldError as error:
                refusals.setdefault(index, error)
    return conditions


def _read_null(value: Any, field: str, limits: Limits) -> Value:
    check_null(value, field)
    return None


def _read_text(value: Any, field: str, limits: Limits) -> Value:
    for error in refuse_strings((value,), limits).values():
        raise error
    return value


def _read_bytes(value: Any, field: str, limits: Limits) -> Value:
    check_count(len(value), "value_bytes_max", limits)
    return value


_Read = Callable[[Any, str, Limits], Value]

# Of each action: its code and how its value is read (None: as it is); no code: an operation of the table below.
_ACTIONS: Final[dict[str, tuple[int | None, _Read | None]]] = {
    "set_null": (_SET, _read_null),
    "set_bool": (_SET, None),
    "set_int": (_SET, None),
    "set_double": (_SET, lambda value, field, limits: read_double(value, field)),
    "set_string": (_SET, _read_text),
    "set_bytes": (_SET, _read_bytes),
    "set_json": (_SET, lambda value, field, limits: decode_json(value, limits, field)),
    "add_int": (_ADD, None),
    "add_double": (_ADD, lambda value, field, limits: read_double(value, field)),
    "register": (None, None),
    "query": (None, None),
    "update": (None, None),
    "delete": (None, None),
    "invoke": (None, None),
    "transact": (None, None),
    "acknowledge": (None, None),
    "timeline": (None, None),
}

# Actions whose values are read and checked in one pass when all ops of a frame have the same.
_UNIFORM: Final[dict[str, tuple[int, Callable[[Sequence[Any], str, Limits], Refusals] | None]]] = {
    "set_bool": (_SET, None),
    "set_int": (_SET, None),
    "set_double": (_SET, lambda values, field, limits: refuse_doubles(values, field)),
    "set_string": (_SET, lambda values, field, limits: refuse_strings(values, limits)),
    "add_int": (_ADD, None),
    "add_double": (_ADD, lambda values, field, limits: refuse_doubles(values, field)),
}

# What names no place of its own: the path index of such an op is not looked at.
_PLACELESS: Final = ("transact", "acknowledge")

_OPERATIONS: Final[dict[str, Callable[[Any, str, Limits], Decoded]]] = {
    "register": decode_register,
    "query": decode_query,
    "update": decode_update,
    "delete": decode_delete,
    "invoke": decode_invoke,
    "transact": decode_transact,
    "acknowledge": decode_acknowledge,
    "timeline": decode_timeline,
}

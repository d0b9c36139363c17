"""Values from the wire, checked: what comes out may be stored."""

import math
from collections.abc import Sequence

from env_api.v1 import values_pb2

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.values import Json, Value, check_value

Refusals = dict[int, WorldError]
"""What is wrong with ops of a frame, by their index."""


def decode_value(message: values_pb2.Value, limits: Limits, field: str = "value") -> Value:
    """One value.

    Raises:
        InvalidRequest: INVALID_FIELD when no kind is set; INVALID_VALUE.
        LimitExceeded: value_bytes_max or json_depth_max.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must have a kind set")
    raw = getattr(message, kind)
    if kind == "null_value":
        check_null(raw, f"{field}.null_value")
        return None
    value: Value = Json(raw) if kind == "json_value" else raw
    check_value(value, limits, field)
    return value


def decode_json(raw: bytes, limits: Limits, field: str) -> Json:
    """One JSON document.

    Raises:
        InvalidRequest: INVALID_VALUE.
        LimitExceeded: value_bytes_max or json_depth_max.
    """
    document = Json(raw)
    check_value(document, limits, field)
    return document


def check_null(raw: bool, field: str) -> None:
    """Accepts what stands for the null value.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not raw:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must be true when set")


def refuse_doubles(values: Sequence[float], field: str) -> Refusals:
    """Errors of those that are not finite, by index; one pass in C when there is none."""
    if math.isfinite(sum(values)):  # an infinity or a NaN stays in a sum, whatever follows
        return {}
    return {
        index: InvalidRequest(Reason.INVALID_VALUE, field, "must be finite")
        for index, value in enumerate(values)
        if not math.isfinite(value)  # none, when finite values merely sum to more than a double holds
    }


def refuse_strings(values: Sequence[str], limits: Limits) -> Refusals:
    """Errors of those that are too long, by index; one pass in C when there is none."""
    if 4 * max(map(len, values), default=0) <= limits.value_bytes_max:  # no character takes more
        return {}
    sizes = [len(value.encode()) for value in values]
    return {
        index: LimitExceeded("value_bytes_max", limits.value_bytes_max, size)
        for index, size in enumerate(sizes)
        if size > limits.value_bytes_max
    }

"""Values: native Python scalars, and JSON documents kept as the bytes they came in.

    null  bool  int (64 bits)  float (finite)  str  bytes  Json

NOTHING stands where there is no value at all (a deletion, a row of an environment), as opposed to None, the null value.
"""

import json
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Nothing:
    """Type of NOTHING."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()


class Json:
    """One JSON document: the bytes as given, parsed when touched, equal when canonically equal."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @cached_property
    def document(self) -> Any:
        """The parsed document. Treat it as frozen."""
        return json.loads(self.text)

    @cached_property
    def canonical(self) -> bytes:
        """The document with sorted keys and no spaces: what equality compares."""
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )

    @staticmethod
    def of(document: Any) -> "Json":
        """Wraps a document made by ourselves."""
        return Json(
            json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(
                "utf-8", "surrogatepass"
            )
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and (self.text == other.text or self.canonical == other.canonical)

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return f"Json({self.text!r})"


Value = None | bool | int | float | str | bytes | Json


class Kind(IntEnum):
    """Kinds of values; the numbers are the field numbers of `Value` in the contract."""

    NOTHING = 0
    NULL = 1
    BOOL = 2
    INT = 3
    DOUBLE = 4
    STRING = 5
    BYTES = 6
    JSON = 7


KIND_OF: Final[dict[type, int]] = {
    Nothing: 0,
    type(None): 1,
    bool: 2,
    int: 3,
    float: 4,
    str: 5,
    bytes: 6,
    Json: 7,
}


def check_value(value: Value, limits: Limits, field: str = "value") -> None:
    """Accepts a value that may be stored.

    Raises:
        InvalidRequest: INVALID_VALUE for NaN, an infinity, an integer beyond 64 bits, a document that is no JSON.
        LimitExceeded: value_bytes_max or json_depth_max.
        TypeError: it is no Value; subclasses of the kinds are none either.
    """
    kind = type(value)
    if kind not in KIND_OF:
        raise TypeError(f"{field}: {kind.__name__} is no kind of value")
    if kind is float:
        if value - value != 0.0:  # type: ignore[operator]
            raise InvalidRequest(Reason.INVALID_VALUE, field, "must be finite")
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
            raise InvalidRequest(Reason.INVALID_VALUE, field, "must fit in 64 bits")
    elif kind is str:
        if not value.isascii() or len(value) > limits.value_bytes_max:  # type: ignore[union-attr, arg-type]
            _check_size(_count_bytes(value, field), limits)  # type: ignore[arg-type]
    elif kind is bytes:
        _check_size(len(value), limits)  # type: ignore[arg-type]
    elif kind is Json:
        check_document(value, limits, field)  # type: ignore[arg-type]


def size_of(value: Value) -> int:
    """About how many bytes a value takes."""
    kind = type(value)
    if kind is Json:
        return len(value.text)  # type: ignore[union-attr]
    return len(value) if kind is str or kind is bytes else 8  # type: ignore[arg-type]


def check_document(document: Json, limits: Limits, field: str = "value") -> None:
    """Accepts strict JSON in UTF-8: bounded depth, no duplicate keys, finite numbers.

    Raises:
        InvalidRequest: INVALID_VALUE.
        LimitExceeded: value_bytes_max or json_depth_max.
    """
    text = document.text
    _check_size(len(text), limits)
    if text.count(b"{") + text.count(b"[") > limits.json_depth_max:  # only then can it be too deep
        depth = _depth(text)
        if depth > limits.json_depth_max:
            raise LimitExceeded("json_depth_max", limits.json_depth_max, depth)
    try:
        parsed = _STRICT.decode(text.decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        problem = str(error) if isinstance(error, _Unacceptable) else "is not a JSON document in UTF-8"
        raise InvalidRequest(Reason.INVALID_VALUE, field, problem) from None
    document.__dict__["document"] = parsed


class _Unacceptable(ValueError):
    pass


def _count_bytes(text: str, field: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate, as the JSON of a client may name one
        raise InvalidRequest(Reason.INVALID_VALUE, field, "must be Unicode text") from None


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.value_bytes_max:
        raise LimitExceeded("value_bytes_max", limits.value_bytes_max, size)


def _refuse_constant(name: str) -> float:
    raise _Unacceptable(f"holds {name}, which is no finite number")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise _Unacceptable("holds a number beyond the range of a double")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Unacceptable("holds an object with duplicate keys")
    return document


#: Made once: json.loads with these arguments makes a decoder a call.
_STRICT: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique)


def _depth(text: bytes) -> int:
    """Deepest nesting of brackets outside strings; needs no valid JSON and no recursion."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in text:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x7B, 0x5B):
            depth += 1
            deepest = max(deepest, depth)
        elif byte in (0x7D, 0x5D):
            depth -= 1
    return deepest

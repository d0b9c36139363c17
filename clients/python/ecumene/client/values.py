"""Python values to wire values and back. One place knows which Python type is which kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from env_api.v1 import values_pb2

from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.model import Json, Value
from ecumene.client.reasons import InvalidKeyError, InvalidPathError, InvalidValueError

_SHOWN_MAX = 60
"""Of what was given, in an error."""
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def encode_json(document: object) -> bytes:
    """One JSON document in UTF-8.

    Raises:
        InvalidValueError: it holds something that JSON has no form for (sets, NaN, other objects, cycles).
    """
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse_value(f"not a JSON document: {error}") from error


def encode_object(fields: object, what: str) -> bytes:
    """A JSON object in UTF-8; `what` names the argument in the error, and what to give instead.

    Raises:
        InvalidValueError: it is no mapping, or JSON has no form for it.
    """
    if not isinstance(fields, Mapping):
        raise refuse_value(f"{what}, not {_show(fields)}")
    return encode_json(dict(fields))


def decode_json(document: bytes) -> Json:
    """The Python form of a JSON document that the server validated; empty = None."""
    return json.loads(document) if document else None


def fill_value(message: values_pb2.Value, value: Value) -> values_pb2.Value:
    """Set the kind of a wire value; returns the message.

    Raises:
        InvalidValueError: no kind can hold it.
    """
    kind, wire = convert_value(value)
    setattr(message, _VALUE_FIELDS[kind], wire)
    return message


def convert_value(value: Value) -> tuple[type, Any]:
    """The Python type that stands for a value's kind, and what goes over the wire.

    Raises:
        InvalidValueError: no kind can hold it.
    """
    kind = type(value)
    if kind is float or kind is bool:
        return kind, value
    if kind is int:
        if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
            raise refuse_value(f"{value!r} does not fit 64 bits")
        return kind, value
    if kind is str:
        check_text(value)  # type: ignore[arg-type]
        return kind, value
    if value is None:
        return kind, True
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes, bytes(value)
    if isinstance(value, dict | list | tuple):
        return dict, encode_json(value)
    # Subclasses (IntEnum, numpy's float64) stand for their plain type.
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return convert_value(plain(value))
    raise refuse_value(f"{kind.__name__} has no form in a world")


def read_value(message: values_pb2.Value) -> Value:
    """The Python form of a wire value; None for null and for an unset one."""
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    if kind == "json_value":
        return decode_json(message.json_value)
    value: Value = getattr(message, kind)
    return value


def check_text(text: str) -> None:
    """Refuse text that UTF-8 cannot carry.

    Raises:
        InvalidValueError: it holds half a surrogate pair.
    """
    if not _is_text(text):
        raise refuse_value("text that UTF-8 cannot carry: surrogates not allowed")


def check_key(key: object) -> str:
    """The key of an entry, if it is text; the server checks the rest. To that an op without a key is its environment's.

    Raises:
        InvalidKeyError: it is none.
    """
    if isinstance(key, str) and key and _is_text(key):
        return key
    message = "key: must not be empty" if key == "" else f"key: must be a str such as 'mood', not {_show(key)}"
    raise InvalidKeyError(ErrorDetails(message=message, reason="INVALID_KEY", executed=Executed.NO))


def check_path(path: object) -> str:
    """The path of an environment, if it is text; the server checks the rest.

    Raises:
        InvalidPathError: it is none.
    """
    if isinstance(path, str) and _is_text(path):
        return path
    message = f"path: must be a str such as '/town', not {_show(path)}"
    raise InvalidPathError(ErrorDetails(message=message, reason="INVALID_PATH", executed=Executed.NO))


def _is_text(text: str) -> bool:
    """Whether UTF-8 can carry it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def _show(found: object) -> str:
    text = ascii(found) if isinstance(found, str) else repr(found)
    return f"{text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + '…'} ({type(found).__name__})"


def refuse_value(why: str) -> InvalidValueError:
    """The error for a value that is refused before it is sent."""
    return InvalidValueError(ErrorDetails(message=why, reason="INVALID_VALUE", executed=Executed.NO))


_VALUE_FIELDS: dict[type, str] = {
    type(None): "null_value",
    bool: "bool_value",
    int: "int_value",
    float: "double_value",
    str: "string_value",
    bytes: "bytes_value",
    dict: "json_value",
}
# Fields of a row that set a value.
OP_FIELDS: dict[type, str] = {
    type(None): "set_null",
    bool: "set_bool",
    int: "set_int",
    float: "set_double",
    str: "set_string",
    bytes: "set_bytes",
    dict: "set_json",
}

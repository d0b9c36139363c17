"""Random and mutated messages of the contract, by reflection: whatever field is added is filled too."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

TEXTS = [
    *("", "/", "/known", "/known/x", "/known/reports", "a", "key", "main", "mean", "round", "open_round", "guess_game"),
    *("/" + "a/" * 20, "/" + "y" * 400, "x" * 128, "x" * 129, "𝒳" * 32, "A" * 65, "/known/" + "s" * 128),
    *("é", "e\u0301", "\u202eabc", "\u200b", "\x00", "\n", "\uffff", "..", "../x", "~0~1", "/" + "9" * 5000),
    *("**", "/known/**", "[", "[a-", "[!]", "?" * 40, "0.0", "1.1", "999.1"),
]
BLOBS = [
    *(b"", b"{}", b"[", b"null", b"[1,2,3]", b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'"\\ud800"', b"1e400", b"NaN"),
    *(b"1" + b"0" * 400, b"\xef\xbb\xbf{}", b"\xff\xfe", b"[" * 65 + b"]" * 65, b"[" * 64 + b"]" * 64, b"{" * 5000),
    *(b'{"x":{"y":[1,2.5,null,true]}}', b"-0.0", b"9223372036854775808", b"\x80\x04K\x01.", b'{"participants":1e3}'),
]
_DOUBLES = [0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308, -1e308, 5e-324]
_NUMBERS: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: [0, 1, -1, 5, 10_000, 10_001, 2**31 - 1, -(2**31)],
    FieldDescriptor.CPPTYPE_INT64: [0, 1, -1, 100, 2**62, 2**63 - 1, -(2**63)],
    FieldDescriptor.CPPTYPE_UINT32: [0, 1, 2, 3, 5000, 2**32 - 1],
    FieldDescriptor.CPPTYPE_UINT64: [0, 1, 2, 3, 10**6, 2**63, 2**64 - 1],
    FieldDescriptor.CPPTYPE_DOUBLE: _DOUBLES,
    FieldDescriptor.CPPTYPE_FLOAT: _DOUBLES,
    FieldDescriptor.CPPTYPE_BOOL: [False, True],
    FieldDescriptor.CPPTYPE_ENUM: [0, 1, 2, 3, 4, 5, 6, 12, 21, 99, -1, 2**31 - 1],
}
_COUNTS = [1] * 20 + [2] * 20 + [3] * 10 + [20] * 3 + [70, 300]
_DEPTH_MAX = 5


def fill(rng: random.Random, message: Any, share: float = 0.35, depth: int = 0) -> Any:
    """Sets about `share` of the message's fields; those that are messages always at the top. Returns it."""
    for field in message.DESCRIPTOR.fields:
        wanted = rng.random() < share or (depth == 0 and field.message_type is not None)
        if not wanted or depth > _DEPTH_MAX:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(rng.choice(_COUNTS)):
                getattr(message, field.name)[rng.choice(TEXTS)] = rng.choice(TEXTS)
        elif _is_repeated(field):
            for _ in range(rng.choice(_COUNTS)):
                if field.message_type is not None:
                    fill(rng, getattr(message, field.name).add(), share * 0.8, depth + 1)
                else:
                    getattr(message, field.name).append(_scalar(rng, field))
        elif field.message_type is not None:
            part = getattr(message, field.name)
            part.SetInParent()
            fill(rng, part, share * 0.8, depth + 1)
        else:
            setattr(message, field.name, _scalar(rng, field))
    return message


def encode(rng: random.Random, message: Message) -> bytes:
    """The message's bytes, more often than not with some of them changed, moved, repeated or left out."""
    if rng.random() < 0.03:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(message.SerializePartialToString())
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            data[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 8)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 6))
        elif kind == 3:
            data[at:at] = data[: rng.randrange(1, 40)]
        elif kind == 4:
            data += b"\xfa\xff\xff\xff\x0f\x03abc"  # a field that no version knows
        elif kind == 5:
            data += bytes(data)  # every oneof twice
        else:
            del data[at:]
    return bytes(data)


def _is_repeated(field: Any) -> bool:
    if hasattr(field, "is_repeated"):  # protobuf 6 has it, 5 only the label, 7 no label any more
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice(BLOBS)
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(TEXTS)
    return rng.choice(_NUMBERS[field.cpp_type])

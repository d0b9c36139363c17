"""Joining encoded protobuf by hand, where building a message would copy what is encoded already.

A message's encoding is the concatenation of its fields', so fields shared by many messages are encoded once.
"""

from typing import Final

ANSWER: Final = 2
"""Field of SessionResponse that holds a FrameAnswer."""
EVENTS: Final = 3
"""Field of SessionResponse that holds an EventFrame."""
CONSUMED_EVENTS: Final = 2
"""Field of ConsumeResponse that holds an EventFrame."""


def wrap(field: int, payload: bytes) -> bytes:
    """The encoding of a message whose `field` is the message encoded as `payload`."""
    return encode_varint(field << 3 | 2) + encode_varint(len(payload)) + payload


def encode_varint(number: int) -> bytes:
    """An unsigned integer, seven bits a byte, low ones first."""
    if number < 0x80:
        return bytes((number,))
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)

"""Encodings joined by hand are those of protobuf."""

import pytest
from env_api.v1 import session_pb2

from env_server.rpc.encode.wire import ANSWER, EVENTS, encode_varint, wrap


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16383, 16384, 2**32, 2**64 - 1])
def test_varints_are_those_of_protobuf(number: int) -> None:
    encoded = session_pb2.Ping(token=number).SerializeToString()
    assert encoded == (b"\x08" + encode_varint(number) if number else b"")


@pytest.mark.parametrize("size", [0, 1, 200, 70_000])
def test_a_wrapped_message_is_the_field_of_its_response(size: int) -> None:
    answer = session_pb2.FrameAnswer(seq=1, pending=[7] * size)
    whole = session_pb2.SessionResponse(answer=answer).SerializeToString()
    assert wrap(ANSWER, answer.SerializeToString()) == whole
    fields = session_pb2.SessionResponse.DESCRIPTOR.fields_by_name
    assert (fields["answer"].number, fields["events"].number) == (ANSWER, EVENTS)

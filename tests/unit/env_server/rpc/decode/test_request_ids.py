"""Request ids on the wire: equal requests have equal digests, different ones different ones."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from env_server.model.errors import InvalidRequest
from env_server.model.frames import Frame
from env_server.model.operations import Code, Precondition
from env_server.model.operations import Test as Condition
from env_server.model.values import Json
from env_server.rpc.decode.request_ids import name_request

ID = "12345678-1234-5678-1234-567812345678"


def asked(path: str = "/a", key: str = "k", code: Code = Code.SET, argument: object = 1) -> Frame:
    return Frame([path], [0], [key], [int(code)], [argument])


def digest_of(frame: Frame) -> int:
    named = replace(frame)
    name_request(named, ID)
    assert named.is_request and named.producer_seqs is not None
    return named.producer_seqs[0]


def test_every_form_of_a_uuid_is_one_id() -> None:
    names = set()
    for text in (ID, ID.upper(), ID.replace("-", ""), uuid.UUID(ID).urn):
        frame = asked()
        name_request(frame, text)
        assert frame.producers is not None
        names.add(frame.producers[0])
    assert names == {f"request/{ID}"}


@pytest.mark.parametrize(
    "text",
    [
        *("x", "1234", ID + "0", "{}", "12345678-1234-5678-1234-56781234567g", ID + "\n", " " + ID, "{" + ID + "}"),
        *("\uff11" * 32, "1_" * 15 + "11", "+" + "1" * 31, "0x" + "1" * 30, "-".join("1" * 32), "\u0661" + ID[1:]),
    ],
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="UUID"):
        name_request(asked(), text)


def test_digests_differ_where_requests_do() -> None:
    conditional = asked()
    conditional.preconditions = {0: (Precondition(Condition.VERSION, 4),)}
    frames = [
        asked(),
        conditional,
        asked(path="/b"),
        asked(key="l"),
        asked(code=Code.ADD),
        asked(argument=2),
        asked(argument=1.0),
        asked(argument=True),
        asked(argument="1"),
        asked(argument=b"1"),
        asked(argument=Json(b"1")),
        asked(argument=None),
    ]
    digests = [digest_of(frame) for frame in frames]
    assert len(set(digests)) == len(frames)
    assert digests == [digest_of(frame) for frame in frames]
    assert all(0 < digest < 2**64 for digest in digests)

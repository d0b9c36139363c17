"""Frames are encoded as the contract says: path table, columns that come when needed, blocks of one kind."""

from __future__ import annotations

from typing import Any

import ecumene
import numpy
import pytest
from ecumene.client.rows import Rows, encode_block
from env_api.v1 import session_pb2


def decode(data: bytes) -> session_pb2.OpFrame:
    return session_pb2.SessionRequest.FromString(data).frame


def test_paths_are_sent_once_and_named_by_index() -> None:
    rows = Rows()
    for path in ("/a", "/b", "/a"):
        rows.append_set(path, "k", 1.0, {})
    frame = decode(rows.encode(7, return_versions=True, deadline_ms=9))
    assert (frame.seq, frame.return_versions, frame.deadline_ms) == (7, True, 9)
    assert list(frame.paths) == ["/a", "/b"]
    assert [op.path for op in frame.ops] == [0, 1, 0]


def test_options_become_columns_only_when_an_op_has_them() -> None:
    rows = Rows()
    rows.append_set("/a", "k0", 1.0, {})
    rows.append_set(
        "/a", "k1", 1.0, {"producer": "p", "seq": 4, "gate_generation": 2, "actor": "", "expect_version": 3}
    )
    rows.append_set("/a", "k2", 1.0, {})
    frame = decode(rows.encode(1))
    assert list(frame.producers) == ["", "p", ""]
    assert list(frame.producer_seqs) == [0, 4, 0]
    assert list(frame.gate_generations) == [0, 2, 0]
    assert list(frame.expect_versions) == [0, 3, 0]
    assert list(frame.actors) == []


def test_other_conditions_stand_with_their_op() -> None:
    rows = Rows()
    rows.append_set("/a", "k", 1.0, {"expect_version": 0})
    rows.append_set("/a", "k", 1.0, {"expect_value": None, "exists": True, "absent": False})
    first, second = decode(rows.encode(1)).ops
    assert [condition.WhichOneof("test") for condition in first.preconditions] == ["absent"]
    assert [condition.WhichOneof("test") for condition in second.preconditions] == ["value", "exists"]
    assert second.preconditions[0].value.null_value


def test_an_unknown_option_adds_nothing() -> None:
    rows = Rows()
    with pytest.raises(TypeError, match="nonsense"):
        rows.append_set("/a", "k", 1.0, {"nonsense": 1})
    assert len(rows) == 0


@pytest.mark.parametrize(
    ("values", "column", "sent"),
    [
        ([1.5, 2], "doubles", [1.5, 2.0]),
        ([1, 2**62], "ints", [1, 2**62]),
        (["a", "é"], "strings", ["a", "é"]),
        ([{"a": 1}, [2]], "json", [b'{"a":1}', b"[2]"]),
        (numpy.array([0.5, 1.5]), "doubles", [0.5, 1.5]),
    ],
)
def test_a_block_carries_values_of_one_kind(values: Any, column: str, sent: list[Any]) -> None:
    frame = decode(encode_block(5, "/a", ["x", "y"], values, seqs=3, producers=["p", "q"], gate_generation=2))
    assert list(getattr(frame.block, column)) == sent
    assert list(frame.block.keys) == ["x", "y"]
    assert (list(frame.producers), list(frame.producer_seqs)) == (["p", "q"], [3])
    assert list(frame.gate_generations) == [2]


@pytest.mark.parametrize(
    ("keys", "values", "options"),
    [
        (["x"], [1.0, 2.0], {}),
        (["x", "y"], [1.0, "a"], {}),
        (["x", "y"], [True, False], {}),
        (["x"], [2**63], {}),
        (["x"], ["a"], {"add": True}),
        (["x"], ["\ud800"], {}),
        (["x", "y"], [1.0, 2.0], {"producers": ["a", "b", "c"]}),
        (["x"], [{1}], {}),
        (["x"], [[float("nan")]], {}),
    ],
)
def test_a_block_that_cannot_be_sent_is_refused_here(keys: list[str], values: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ecumene.InvalidValueError):
        encode_block(1, "/a", keys, values, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"join_lease_id": -1},
        {"gate_generation": 2**64},
        {"producers": ["p"], "seqs": -1},
        {"producers": ["\ud800"]},
        {"actors": [5]},
        {"deadline_ms": 2**70},
    ],
)
def test_a_block_says_which_of_its_columns_no_frame_can_carry(options: dict[str, Any]) -> None:
    with pytest.raises(ecumene.InvalidFieldError):
        encode_block(1, "/a", ["x"], [1], **options)


def test_a_row_with_half_a_character_leaves_nothing_behind() -> None:
    rows = Rows()
    with pytest.raises(ecumene.InvalidKeyError):
        rows.append_set("/a", "\ud800", 1.0, {})
    rows.append_set("/a", "x", 1.0, {"actor": 5})
    assert len(rows) == 1
    with pytest.raises(ecumene.InvalidFieldError, match="actor"):
        rows.encode(1)

"""Frames from the wire: columns as they should be, and what is refused of them."""

import math
from typing import Any

import pytest
from env_api.v1 import operations_pb2, queries_pb2, session_pb2

from env_server.model.entries import MEMBER
from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.frames import Frame
from env_server.model.limits import Limits
from env_server.model.operations import Code, Get, Placed, Precondition, Query, RegisterEntry, Transact
from env_server.model.operations import Test as Condition
from env_server.model.values import Json
from env_server.rpc.decode.frames import decode_frame

Op = session_pb2.Op
Block = session_pb2.SetBlock
LIMITS = Limits()


class StoppedClock:
    def monotonic_ns(self) -> int:
        return 1000


def decode(limits: Limits = LIMITS, size_bytes: int = 100, of_session: tuple[str, ...] = (), **fields: Any) -> Frame:
    """Decodes a frame with these fields, after a trip over the wire."""
    fields = {"seq": 1, "paths": ["/a", "/b"], **fields}
    message = session_pb2.OpFrame.FromString(session_pb2.OpFrame(**fields).SerializeToString())
    clock: Any = StoppedClock()
    return decode_frame(message, size_bytes, limits, clock, client_id="c", groups=of_session)


def refusal(frame: Frame, index: int) -> WorldError:
    """The error that op `index` was refused with."""
    assert frame.codes[index] == Code.REFUSED
    error = frame.arguments[index]
    assert isinstance(error, WorldError)
    return error


def test_rows_of_doubles_become_columns() -> None:
    frame = decode(ops=[Op(path=1, key="x", set_double=1.5), Op(key="y", set_double=-2)])
    assert (frame.path, frame.keys, frame.arguments) == ([1, 0], ["x", "y"], [1.5, -2.0])
    assert frame.codes == [Code.SET, Code.SET]
    assert (frame.client_id, frame.seq, frame.producers, frame.preconditions) == ("c", 1, None, None)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("set_bool", False, Code.SET),
        ("set_int", -(2**63), Code.SET),
        ("set_double", 0.5, Code.SET),
        ("set_string", "ü", Code.SET),
        ("add_int", 3, Code.ADD),
        ("add_double", 2.5, Code.ADD),
    ],
)
def test_uniform_and_mixed_rows_say_the_same(field: str, value: Any, code: Code) -> None:
    op = Op(key="k", **{field: value})
    uniform = decode(ops=[op, op])
    assert uniform.codes == [code, code]
    assert uniform.arguments == [value, value]
    mixed = decode(ops=[op, Op(key="q", query=queries_pb2.Query(get={}))])
    assert mixed.codes == [code, Code.QUERY]
    assert mixed.arguments == [value, Query(Get())]
    assert type(mixed.arguments[0]) is type(value)


def test_null_bytes_and_documents_are_values() -> None:
    frame = decode(ops=[Op(key="a", set_null=True), Op(key="b", set_bytes=b"\x80\x04."), Op(key="c", set_json=b"[1]")])
    assert frame.codes == [Code.SET] * 3
    assert frame.arguments == [None, b"\x80\x04.", Json(b"[1]")]


def test_every_action_of_the_contract_is_read() -> None:
    for field in Op.DESCRIPTOR.oneofs_by_name["action"].fields:
        op = Op(key="k")
        if field.message_type is None:
            samples = {field.TYPE_BYTES: b"{}", field.TYPE_STRING: "x", field.TYPE_BOOL: True}
            setattr(op, field.name, samples.get(field.type, 1))
        else:
            getattr(op, field.name).SetInParent()
        frame = decode(ops=[op])
        if field.message_type is None:
            assert frame.codes[0] in (Code.SET, Code.ADD), field.name
        elif frame.codes[0] == Code.REFUSED:
            assert refusal(frame, 0).reason is Reason.INVALID_FIELD, field.name


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_double_that_is_not_finite_refuses_its_op_alone(bad: float) -> None:
    for frame in (
        decode(ops=[Op(key="a", set_double=1), Op(key="b", set_double=bad), Op(key="c", add_double=bad)]),
        decode(ops=[Op(key="a", set_double=1), Op(key="b", set_double=bad), Op(key="c", set_double=-bad)]),
        decode(block=Block(keys=["a", "b", "c"], doubles=[1, bad, -bad])),
    ):
        assert frame.codes[0] == Code.SET
        assert [refusal(frame, index).reason for index in (1, 2)] == [Reason.INVALID_VALUE] * 2


def test_finite_doubles_whose_sum_overflows_are_accepted() -> None:
    frame = decode(block=Block(keys=["a", "b"], doubles=[1.7e308, 1.7e308]))
    assert frame.codes == [Code.SET, Code.SET]


def test_block_follows_rows() -> None:
    frame = decode(ops=[Op(key="r", set_int=1)], block=Block(path=1, keys=["x", "y"], ints=[5, -6], add=True))
    assert frame.keys == ["r", "x", "y"]
    assert frame.path == [0, 1, 1]
    assert frame.codes == [Code.SET, Code.ADD, Code.ADD]
    assert frame.arguments == [1, 5, -6]


def test_block_of_strings_and_of_documents() -> None:
    assert decode(block=Block(keys=["x"], strings=["s"])).arguments == ["s"]
    frame = decode(block=Block(keys=["x", "y"], json=[b"{}", b"{"]))
    assert frame.arguments[0] == Json(b"{}")
    assert refusal(frame, 1).reason is Reason.INVALID_VALUE


@pytest.mark.parametrize(
    "block",
    [
        Block(keys=["a", "b"], doubles=[1]),
        Block(keys=["a"], doubles=[1, 2]),
        Block(keys=["a"]),
        Block(keys=["a", "b"], doubles=[1], ints=[1]),
        Block(keys=["a"], strings=["x"], add=True),
        Block(doubles=[1]),
    ],
)
def test_a_block_whose_columns_do_not_fit_refuses_the_frame(block: session_pb2.SetBlock) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(ops=[Op(key="r", set_int=1)], block=block)
    assert caught.value.reason is Reason.INVALID_FIELD


def test_a_value_that_is_too_long_refuses_its_op() -> None:
    limits = Limits(value_bytes_max=10)
    for frame in (
        decode(limits, ops=[Op(key="a", set_string="é" * 5), Op(key="b", set_string="é" * 6)]),
        decode(limits, ops=[Op(key="a", set_bytes=b"x" * 10), Op(key="b", set_bytes=b"x" * 11)]),
        decode(limits, block=Block(keys=["a", "b"], strings=["x" * 10, "x" * 11])),
        decode(limits, block=Block(keys=["a", "b"], json=[b"1" * 10, b"1" * 11])),
    ):
        assert frame.codes[0] == Code.SET
        assert refusal(frame, 1).metadata["limit"] == "value_bytes_max"


def test_an_op_without_action_or_with_a_foreign_path_is_refused_alone() -> None:
    frame = decode(ops=[Op(key="a"), Op(path=2, key="b", set_int=1), Op(path=1, key="c", set_int=1)])
    assert refusal(frame, 0).reason is Reason.INVALID_FIELD
    assert refusal(frame, 1).reason is Reason.INVALID_FIELD
    assert frame.codes[2] == Code.SET
    assert max(frame.path) < len(frame.paths)


def test_a_frame_without_paths_refuses_its_ops_but_not_transactions() -> None:
    write = operations_pb2.Write(path="/a", key="k", update={"add_int": 1})
    frame = decode(paths=[], ops=[Op(key="a", set_int=1), Op(transact=operations_pb2.Transact(writes=[write]))])
    assert frame.codes[1] == Code.TRANSACT
    assert isinstance(frame.arguments[1], Transact)
    only = decode(paths=[], ops=[Op(key="a", set_int=1)])
    assert refusal(only, 0).reason is Reason.INVALID_FIELD
    assert only.paths == ["/"]


def test_identity_columns_are_spread() -> None:
    frame = decode(
        ops=[Op(key="a", set_int=1), Op(key="b", set_int=2)],
        producers=["p1", ""],
        producer_seqs=[7, 0],
        gate_generations=[3],
        expect_versions=[1, 0],
        actors=["who"],
        causes=["main/5.0", "x"],
        return_versions=True,
        deadline_ms=2,
    )
    assert (frame.producers, frame.producer_seqs) == (["p1", ""], [7, 0])
    assert frame.gate_generations == [3, 3]
    assert frame.expect_versions == [1, 0]
    assert (frame.actors, frame.causes) == (["who", "who"], ["main/5.0", "x"])
    assert frame.return_versions
    assert frame.deadline_ns == 2_001_000


@pytest.mark.parametrize(
    "fields",
    [
        {"producers": ["a", "b"], "producer_seqs": [1]},
        {"producers": ["a"]},
        {"producer_seqs": [1]},
        {"gate_generations": [1, 2]},
        {"expect_versions": [1, 2, 3, 4]},
        {"actors": ["a", "b"]},
        {"causes": ["a", "b"]},
        {"deadline_ms": -1},
        {"seq": 0},
    ],
)
def test_columns_that_do_not_fit_refuse_the_frame(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(ops=[Op(key=str(index), set_int=1) for index in range(3)], **fields)
    assert caught.value.reason is Reason.INVALID_FIELD


def test_an_unacceptable_identity_refuses_its_op_alone() -> None:
    ops = [Op(key=str(index), set_int=1) for index in range(4)]
    frame = decode(ops=ops, producers=["ok", "not ok", "x" * 65, "ok"], producer_seqs=[1, 1, 1, 0])
    assert frame.codes[0] == Code.SET
    assert all(refusal(frame, index).reason is Reason.INVALID_FIELD for index in (1, 2, 3))
    frame = decode(ops=ops, actors=["a", "", "ä", "b"], causes=["x" * 129, "", "", ""])
    assert [code == Code.REFUSED for code in frame.codes] == [True, False, True, False]


def test_preconditions_stand_beside_their_op() -> None:
    conditions = [operations_pb2.Precondition(version=4), operations_pb2.Precondition(key="z", absent=True)]
    frame = decode(
        ops=[
            Op(key="a", set_double=1),
            Op(key="b", set_double=1, preconditions=conditions),
            Op(key="c", set_double=1, preconditions=[operations_pb2.Precondition()]),
        ]
    )
    assert frame.preconditions == {1: (Precondition(Condition.VERSION, 4), Precondition(Condition.ABSENT, key="z"))}
    assert refusal(frame, 2).reason is Reason.INVALID_FIELD


def test_limits_refuse_the_frame_by_name() -> None:
    limits = Limits(frame_ops_max=2, frame_bytes_max=1000)
    op = Op(key="k", set_int=1)
    assert len(decode(limits, ops=[op, op]).keys) == 2
    with pytest.raises(LimitExceeded, match="frame_ops_max"):
        decode(limits, ops=[op], block=Block(keys=["a", "b"], ints=[1, 2]))
    assert len(decode(limits, 1000, ops=[op]).keys) == 1
    with pytest.raises(LimitExceeded, match="frame_bytes_max"):
        decode(limits, 1001, ops=[op])


def test_an_op_takes_the_group_it_names_by_number_and_one_without_is_not_let_through() -> None:
    ops = [Op(key=str(number), set_int=number) for number in range(4)]
    frame = decode(ops=ops, groups=[2, 1, 0, 3], of_session=("/a", "/b"))
    assert frame.groups == ["/b", "/a", "", ""]
    assert refusal(frame, 3).reason is Reason.INVALID_FIELD
    assert frame.codes[:3] == [Code.SET] * 3
    assert decode(ops=ops, groups=[1], of_session=("/a",)).groups == ["/a"] * 4
    assert decode(ops=ops, of_session=("/a",)).groups == [""] * 4
    assert decode(ops=ops, groups=[0]).groups is None
    assert refusal(decode(ops=ops, groups=[1]), 0).reason is Reason.INVALID_FIELD


def test_an_empty_frame_is_a_frame() -> None:
    frame = decode(producers=["p"], producer_seqs=[1])
    assert frame.keys == []
    assert frame.producers is None


def test_a_block_moves_places_and_joins() -> None:
    moves = decode(block=Block(keys=["a", "b"], coordinates=[1, 2, 3, 4], dimensions=2))
    assert moves.codes == [Code.MOVE] * 2
    assert moves.arguments == [(1.0, 2.0), (3.0, 4.0)]
    placings = decode(block=Block(keys=["a", "b"], strings=["x", "y"], coordinates=[7, 8], dimensions=1))
    assert placings.codes == [Code.PLACE] * 2
    assert placings.arguments == [Placed("x", (7.0,)), Placed("y", (8.0,))]
    joins = decode(block=Block(keys=["a"], ints=[5], coordinates=[7, 8], dimensions=2, join_lease_id=3))
    assert joins.codes == [Code.REGISTER_ENTRY]
    assert joins.arguments == [RegisterEntry(MEMBER, 5, if_absent=True, lease=3, position=(7.0, 8.0))]
    bad = decode(block=Block(keys=["a", "b"], doubles=[1, math.nan], coordinates=[1, 2], dimensions=1))
    assert bad.codes[0] == Code.PLACE and refusal(bad, 1).reason is Reason.INVALID_VALUE


@pytest.mark.parametrize(
    "block",
    [
        Block(keys=["a"], coordinates=[1]),
        Block(keys=["a"], coordinates=[1, 2, 3], dimensions=3),
        Block(keys=["a"], dimensions=2),
        Block(keys=["a", "b"], coordinates=[1, 2], dimensions=2),
        Block(keys=["a"], ints=[1], coordinates=[1], dimensions=1, add=True),
        Block(keys=["a"], coordinates=[1], dimensions=1, add=True),
        Block(keys=["a"], coordinates=[1], dimensions=1, join_lease_id=3),
    ],
)
def test_a_block_whose_positions_do_not_fit_is_refused(block: Block) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(block=block)
    assert caught.value.reason is Reason.INVALID_FIELD

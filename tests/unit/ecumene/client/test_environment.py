"""Each call of a handle is the op that the contract has for it, and each answer the value that the call promises."""

from __future__ import annotations

import asyncio
from typing import Any

import ecumene
import pytest
from ecumene import Aggregate, AggregateFunction, Gate, GateCause, World, Written
from env_api.v1 import operations_pb2, queries_pb2, session_pb2, values_pb2

from tests.unit.ecumene.client.fake_server import FakeServer

ROOM = "/town/market"


def sent(server: FakeServer) -> list[session_pb2.Op]:
    return [op for frame in server.frames() for op in frame.ops]


def answer(server: FakeServer, **outcome: Any) -> None:
    server.outcomes.append(operations_pb2.OpOutcome(**outcome))


def answer_query(server: FakeServer, **result: Any) -> None:
    answer(server, query=queries_pb2.QueryResult(**result))


async def test_writes_of_an_entry(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    await room.set("a", "x", absent=True)
    await room.set("b", {"deep": [1]})
    await room.create("c", None, if_absent=True)
    await room.create_stream("d", items_max=5)
    await room.increment("e", 2)
    await room.increment("e", 0.5)
    await room.append("d", b"raw")
    await room.merge("b", {"deep": None})
    await room.delete("a", if_present=True)
    ops = sent(server)
    assert [op.key for op in ops] == list("abcdeedba")
    assert {path for frame in server.frames() for path in frame.paths} == {ROOM}
    assert ops[0].set_string == "x"
    assert ops[0].preconditions[0].absent
    assert ops[1].set_json == b'{"deep":[1]}'
    assert ops[2].register.if_absent
    assert ops[2].register.value.null_value
    assert (ops[3].register.entry_kind, ops[3].register.stream_items_max) == (values_pb2.ENTRY_KIND_STREAM, 5)
    assert not ops[3].register.HasField("value")
    assert (ops[4].update.add_int, ops[5].update.add_double) == (2, 0.5)
    assert ops[6].update.append.bytes_value == b"raw"
    assert ops[7].update.merge_json == b'{"deep":null}'
    assert ops[8].delete.if_present


async def test_what_a_write_did_is_told(server: FakeServer, world: World) -> None:
    message = operations_pb2.Written(
        revision=4, version=2, changed=True, value=values_pb2.Value(int_value=7), sequence=3
    )
    answer(server, written=message, duplicate=True)
    written = await world.environment(ROOM).increment("n", 7)
    assert written == Written(revision=4, version=2, value=7, sequence=3, changed=True, duplicate=True)


async def test_registration_and_changes_of_an_environment(server: FakeServer, world: World) -> None:
    room = world.environment("/town").child("market")
    mean = Aggregate("mean", AggregateFunction.MEAN, in_generation=True, field="/bid")
    await room.register(kind="auction", config={"lots": 3}, aggregates=[mean], gates=[Gate("all", 5)], if_absent=True)
    await room.change(set_labels={"a": "b"}, remove_gates=["all"], merge_config={"lots": None}, expect_version=2)
    await room.unregister(recursive=True)
    register, change, delete = sent(server)
    assert server.frames()[0].paths[0] == ROOM
    assert (register.register.kind, register.register.config_json) == ("auction", b'{"lots":3}')
    assert register.register.aggregates[0].field == "/bid"
    assert (register.register.gates[0].name, register.register.gates[0].count_target) == ("all", 5)
    assert change.update.environment.merge_config_json == b'{"lots":null}'
    assert list(change.update.environment.remove_gates) == ["all"]
    assert list(server.frames()[1].expect_versions) == [2]
    assert delete.delete.recursive


async def test_reading_an_entry_and_falling_back(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    await room.set("a", 1.0)
    assert (await room.get("a")).version == 1
    assert await room.value("absent", "nothing") == "nothing"
    with pytest.raises(ecumene.EntryNotFoundError) as caught:
        await room.get("absent")
    assert caught.value.key == "absent"


async def test_listings_go_over_all_pages(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    for page, token in ((("a", "b"), "next"), (("c",), "")):
        entries = [values_pb2.Entry(key=key, kind=values_pb2.ENTRY_KIND_VALUE) for key in page]
        answer_query(server, entries=queries_pb2.EntryPage(entries=entries, next_page_token=token))
    assert [entry.key async for entry in room.entries("p", page_size=2)] == ["a", "b", "c"]
    assert [op.query.list_entries.page_token for op in sent(server)] == ["", "next"]
    for name, token in (("x", "more"), ("y", "")):
        page = queries_pb2.EnvironmentPage(environments=[values_pb2.Environment(path=name)], next_page_token=token)
        answer_query(server, environments=page)
    assert [child.path async for child in room.children(labels={"a": "b"})] == ["x", "y"]
    assert dict(sent(server)[-1].query.list_children.labels) == {"a": "b"}


async def test_streams_environments_and_aggregates_are_read(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    item = values_pb2.StreamItem(sequence=4, value=values_pb2.Value(string_value="hi"), revision=9)
    answer_query(server, stream=queries_pb2.StreamPage(items=[item], first_kept=2, next_sequence=5))
    page = await room.read_stream("log", from_sequence=4, limit=10)
    assert page == ecumene.StreamPage((ecumene.StreamItem(4, "hi", 9),), first_kept=2, next_sequence=5)
    answer_query(server, environment=values_pb2.Environment(path=ROOM, kind="basic", config_json=b'{"a":1}'))
    assert (await room.describe()).config == {"a": 1}
    mean = values_pb2.AggregateValue(name="mean", function=values_pb2.AGGREGATE_FUNCTION_MEAN, entries=2, numbers=2)
    mean.value.double_value = 1.5
    answer_query(server, aggregates=queries_pb2.AggregateValues(values=[mean]))
    assert (await room.aggregates("mean")).values["mean"].value == 1.5
    assert list(sent(server)[-1].query.aggregates.names) == ["mean"]


async def test_beginning_a_generation_tells_which_one_in_one_frame(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    state = values_pb2.GateState(gate=values_pb2.Gate(name="all"), generation=3, begin_revision=8)
    answer(server, written=operations_pb2.Written(revision=8, changed=True))
    answer_query(server, aggregates=queries_pb2.AggregateValues(gates=[state]))
    begun = await room.begin_generation("all", count_target=10)
    assert (begun.generation, begun.begin_revision, begun.cause) == (3, 8, GateCause.UNSPECIFIED)
    assert len(server.frames()) == 1
    begin = sent(server)[0].update.environment.begin_generation
    assert (begin.gate, begin.count_target, begin.HasField("deadline_ms")) == ("all", 10, False)
    await room.open_gate("all", 3)
    assert sent(server)[-1].update.environment.open_gate.generation == 3


async def test_operations_take_named_arguments_and_companions(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    answer(server, invoke=operations_pb2.InvokeResult(revision=5, result_json=b'{"won":true}', changed=True))
    assert await room.invoke("bid", amount=3) == {"won": True}
    answer(server, invoke=operations_pb2.InvokeResult(revision=6))
    done = await room.run("bid", {"amount": 4}, companions=world.writes().set("/mem", "ann", 1), producer="ann", seq=2)
    assert done == ecumene.Invoked(revision=6, result=None, changed=False)
    first, second = sent(server)
    assert (first.invoke.operation, first.invoke.args_json) == ("bid", b'{"amount":3}')
    assert second.invoke.companions[0].update.set.int_value == 1
    assert list(server.frames()[1].producers) == ["ann"]


async def test_a_transaction_is_one_op_with_conditions_and_an_else_branch(server: FakeServer, world: World) -> None:
    tx = world.transaction().require("/bank", "ann", expect_version=3)
    tx.increment("/bank", "ann", -5).append("/log", "l", "moved", exists=True).create("/a", "b", 1).delete("/a", "c")
    tx.merge("/a", "d", {"x": 1})
    tx.otherwise.set("/log", "failed", True)
    result = operations_pb2.TransactResult(revision=9, written=[operations_pb2.Written(revision=9, changed=True)])
    answer(server, transact=result)
    done = await tx.commit(producer="p", seq=4)
    assert (done.revision, done.otherwise, done.written[0].revision) == (9, False, 9)
    transact = sent(server)[0].transact
    assert (transact.preconditions[0].path, transact.preconditions[0].version) == ("/bank", 3)
    assert [write.WhichOneof("action") for write in transact.writes] == [
        "update",
        "update",
        "register",
        "delete",
        "update",
    ]
    assert transact.writes[1].preconditions[0].exists
    assert transact.otherwise[0].update.set.bool_value


async def test_a_refused_argument_is_raised_where_it_was_given(world: World) -> None:
    room = world.environment("/")
    with pytest.raises(ecumene.InvalidValueError):
        await room.increment("a", 2**63)
    with pytest.raises(TypeError, match="nonsense"):
        await room.set("a", 1, nonsense=1)  # type: ignore[call-arg]
    assert await asyncio.gather(room.set("a", 1.0)) == [Written(1, 1)]


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda room: room.merge("k", 3), ecumene.InvalidValueError, r"merge: give .* dict .* set, not 3 \(int\)"),
        (lambda room: room.merge("k", ["a"]), ecumene.InvalidValueError, r"not \['a'\] \(list\)"),
        (lambda room: room.merge("k", "x" * 999), ecumene.InvalidValueError, r"x…' \(str\)|x… \(str\)"),
        (
            lambda room: room.increment("k", "1"),
            ecumene.InvalidValueError,
            "increment: give an int or a float, not str",
        ),
        (lambda room: room.set(3, 1.5), ecumene.InvalidKeyError, r"key: must be a str such as 'mood', not 3 \(int\)"),
        (lambda room: room.set(None, 1), ecumene.InvalidKeyError, r"not None \(NoneType\)"),
        (lambda room: room.get(b"k"), ecumene.InvalidKeyError, r"not b'k' \(bytes\)"),
        (lambda room: room.delete(3), ecumene.InvalidKeyError, "key: must be a str"),
        (lambda room: room.delete(""), ecumene.InvalidKeyError, "key: must not be empty"),
        (lambda room: room.create(3, 1), ecumene.InvalidKeyError, "key: must be a str"),
        (lambda room: room.append(3, 1), ecumene.InvalidKeyError, "key: must be a str"),
        (lambda room: room.register(config=[1]), ecumene.InvalidValueError, r"config: give a dict, not \[1\] \(list\)"),
        (lambda room: room.register(entry_schema="x"), ecumene.InvalidValueError, "entry_schema: give a JSON schema"),
        (lambda room: room.change(merge_config=3), ecumene.InvalidValueError, "merge_config: give a dict"),
        (lambda room: room.run("go", ["x"]), ecumene.InvalidValueError, "args: give the parameters by name"),
    ],
)
async def test_what_cannot_be_meant_is_refused_in_words_before_it_is_sent(
    world: World, server: FakeServer, ask: Any, error: type[ecumene.EcumeneError], words: str
) -> None:
    with pytest.raises(error, match=words) as refused:
        await ask(world.environment("/room"))
    assert refused.value.executed is ecumene.Executed.NO
    assert refused.value.reason in ("INVALID_VALUE", "INVALID_KEY")
    assert server.frames() == []


async def test_names_that_are_no_text_are_refused_wherever_they_stand(world: World) -> None:
    for ask in (
        lambda: world.environment(3),  # type: ignore[arg-type]
        lambda: world.transaction().set(3, "k", 1),  # type: ignore[arg-type]
        lambda: world.transaction().require(3, exists=True),  # type: ignore[arg-type]
        lambda: world.frame().set(3, "k", 1.5),  # type: ignore[arg-type]
    ):
        with pytest.raises(ecumene.InvalidPathError, match="path: must be a str such as '/town', not 3"):
            ask()
    frame = world.frame()
    for ask in (
        lambda: world.transaction().delete("/room", 3),  # type: ignore[arg-type]
        lambda: world.writes().merge("/room", 3, {}),  # type: ignore[arg-type]
        lambda: frame.set("/room", 3, 1.5),  # type: ignore[arg-type]
        lambda: frame.set("/room", 3, "x"),  # type: ignore[arg-type]
        lambda: frame.increment("/room", 3),  # type: ignore[arg-type]
        # An op without a key is one of the environment as a whole.
        lambda: world.transaction().delete("/room", ""),
        lambda: world.writes().delete("/room", ""),
        lambda: frame.delete("/room", ""),
    ):
        with pytest.raises(ecumene.InvalidKeyError, match="key: must "):
            ask()
    assert len(frame) == 0, "nothing is left of what was refused"


@pytest.mark.parametrize(
    "options",
    [
        {"expect_version": -1},
        {"expect_version": 2**64},
        {"seq": -1, "producer": "p"},
        {"seq": "1", "producer": "p"},
        {"gate_generation": 1.5},
        {"lease_owner": -1},
        {"created_revision": 2**64},
        {"producer": 5, "seq": 1},
        {"actor": 5},
        {"actor": "\ud800"},
        {"cause": b"raw"},
    ],
)
async def test_an_option_that_no_frame_can_carry_fails_its_op_alone(
    server: FakeServer, world: World, options: Any
) -> None:
    """It failed while the frame was written, and with it the session: all ops of the program, now and later."""
    room = world.environment(ROOM)
    done, refused, also_done = await asyncio.gather(
        room.set("a", 1), room.set("b", 2, **options), room.set("c", 3), return_exceptions=True
    )
    assert isinstance(refused, ecumene.InvalidFieldError | ecumene.InvalidValueError), refused
    assert isinstance(done, Written) and isinstance(also_done, Written)
    await room.set("d", 4)
    assert [op.key for op in sent(server)] == ["a", "c", "d"]


async def test_half_characters_and_times_without_end_are_dealt_with_before_anything_is_sent(
    server: FakeServer, world: World
) -> None:
    room = world.environment(ROOM)
    with pytest.raises(ecumene.InvalidPathError):
        world.environment("/\ud800")
    with pytest.raises(ecumene.InvalidKeyError):
        await room.set("\ud800", 1)
    with pytest.raises(ecumene.InvalidFieldError, match="timeout_s"):
        ecumene.Environment(world, ROOM, float("nan"))
    for timeout_s in (1e300, float("inf")):
        await ecumene.Environment(world, ROOM, timeout_s).set("a", 1)
    assert [op.key for op in sent(server)] == ["a", "a"]

"""Every method against hostile input: malformed, oversized, unknown; and what the service says of itself."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import interventions_pb2 as acts_pb
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import seats_pb2 as seats_pb
from ecumene.client.runtime_errors import from_runtime_error
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from agent_runtime.rpc.options import SERVER_OPTIONS
from agent_runtime.rpc.service import SERVICE, build_handlers, is_loopback, serve
from tests.unit.agent_runtime.nodes import (
    Place,
    Served,
    describe_run,
    dump_agents,
    make_settings,
    name_agents,
    open_served,
)

METHODS = tuple(pb.DESCRIPTOR.services_by_name["RuntimeService"].methods)
GARBAGE = b"\xff\xff\xff\xff\x0f"
DEEP = b"[" * 100_000


@pytest.fixture
async def served(tmp_path: Path, home: Place) -> AsyncIterator[Served]:
    """A node that hosts run `r`."""
    async with open_served(make_settings(home, tmp_path)) as opened:
        await opened.launch(describe_run(), {"g": name_agents(10)})
        yield opened


async def send(served: Served, method: str, data: bytes) -> tuple[str, str]:
    """Sends raw bytes; the reason and the text with which the call ends ("" = it succeeded)."""
    described = next(one for one in METHODS if one.name == method)
    path = f"/{SERVICE}/{method}"
    channel = served.channel
    try:
        if described.client_streaming and described.server_streaming:
            call = channel.stream_stream(path)(iter([data]))
            _ = [response async for response in call]
        elif described.client_streaming:
            await channel.stream_unary(path)(iter([data]))
        elif described.server_streaming:
            _ = [response async for response in channel.unary_stream(path)(data)]
        else:
            await channel.unary_unary(path)(data)
    except grpc.aio.AioRpcError as error:
        return from_runtime_error(error).reason, str(error.details())
    return "", ""


def build(method: str, **fields: Any) -> bytes:
    """The request of a method."""
    kind = GetMessageClass(next(one.input_type for one in METHODS if one.name == method))
    data: bytes = kind(**fields).SerializeToString()
    return data


def test_every_method_has_its_handler() -> None:
    assert build_handlers(None).keys() == {method.name for method in METHODS}  # type: ignore[arg-type]


async def test_what_is_no_message_is_refused_as_such(served: Served) -> None:
    for method in METHODS:
        told = await send(served, method.name, GARBAGE)
        assert told == ("MALFORMED_MESSAGE", f"{method.name}Request is not such a protobuf message")


SAMPLE = asks_pb.Sample(count=3)
QUESTION = asks_pb.SurveyQuestion(name="mood", text="How are you?", type=asks_pb.QUESTION_TYPE_NUMBER)


UNKNOWN: list[tuple[str, dict[str, Any]]] = [
    ("Inspect", {}),
    ("Stop", {}),
    ("Interview", {"agent": "agent-1", "question": "?"}),
    ("SampleAgents", {"sample": SAMPLE}),
    ("Survey", {"questions": [QUESTION], "sample": SAMPLE}),
    ("Intervene", {"actor": "ann", "mute": acts_pb.Mute(agent="agent-1", muted=True)}),
]


async def test_a_run_that_is_not_there_is_not_found(served: Served) -> None:
    for method, fields in UNKNOWN:
        assert (await send(served, method, build(method, run="nobody", **fields)))[0] == "RUN_NOT_FOUND", method
    take = seats_pb.TakeSeat(run="nobody", agent="x", actor="ann", timeout_ms=1000)
    assert (await send(served, "Sit", build("Sit", take=take)))[0] == "RUN_NOT_FOUND"


EDIT_BAD = acts_pb.Edit(path="no", key="k", value_json=b"1")
EDIT_ABSENT = acts_pb.Edit(path="/x", key="k", value_json=b"1")
EDIT_HUGE = acts_pb.Edit(path="/x", key="k", value_json=b"1180591620717411303424")
APPEND_NOWHERE = acts_pb.Injection(path="/x", append=acts_pb.Append(value_json=b"1"))
EDITS_REFUSED = (
    *(
        acts_pb.Edit(path="/x", key="k", value_json=text)
        for text in (b"NaN", b"1e999", b'"\\ud800"', b"\xff", b"-Infinity")
    ),
    acts_pb.Edit(path="/runtime/runs/r/agents", key="agent-1", value_json=b"{}"),
    acts_pb.Edit(path="/runtime", key="k", value_json=b"1"),
    acts_pb.Edit(path="/x", key="k", value_json=b"9" * 5000),
    acts_pb.Edit(path="/x"),
    acts_pb.Edit(path="/x", value_json=b"1"),
)
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("Launch", {"header": pb.LaunchHeader(description_json=DEEP)}, "LAUNCH_REFUSED"),
    ("Launch", {"header": pb.LaunchHeader(description_json=b"{}")}, "LAUNCH_REFUSED"),
    ("Launch", {"header": pb.LaunchHeader(description_json=b"[]")}, "LAUNCH_REFUSED"),
    ("Launch", {"header": pb.LaunchHeader(description_json=b" " * 600_000)}, "LIMIT_EXCEEDED"),
    ("Launch", {"header": pb.LaunchHeader(description_json=b'{"run": "s", "seed": NaN}')}, "LAUNCH_REFUSED"),
    ("Launch", {"header": pb.LaunchHeader(description_json=b'{"run": "s", "groups": "\\ud800"}')}, "LAUNCH_REFUSED"),
    ("Launch", {"chunk": pb.PopulationChunk(group="g", arrow_ipc=b"x")}, "INVALID_FIELD"),
    ("Launch", {}, "INVALID_FIELD"),
    ("Stop", {"run": "r", "drain_ms": -1}, "INVALID_FIELD"),
    ("Drain", {"drain_ms": 600_001}, "INVALID_FIELD"),
    ("Logs", {"lines_max": 10_001}, "INVALID_FIELD"),
    ("CleanUp", {"run": "../nodes"}, "INVALID_FIELD"),
    ("CleanUp", {}, "INVALID_FIELD"),
    ("CleanUp", {"run": "."}, "INVALID_FIELD"),
    ("CleanUp", {"run": ".."}, "INVALID_FIELD"),
    ("CleanUp", {"run": "r\n"}, "INVALID_FIELD"),
    ("CleanUp", {"run": "x" * 81}, "INVALID_FIELD"),
    ("Stop", {"run": ".."}, "INVALID_FIELD"),
    ("CleanUp", {"run": "r"}, "RUN_ACTIVE"),
    ("Interview", {"run": "r", "agent": "nobody", "question": "?"}, "AGENT_NOT_FOUND"),
    ("Interview", {"run": "r", "agent": "agent-1", "question": " "}, "INVALID_FIELD"),
    ("Interview", {"run": "r", "agent": "agent-1", "question": "x" * 20_000}, "LIMIT_EXCEEDED"),
    ("Interview", {"run": "r", "agent": "agent-1", "question": "?", "timeout_ms": -5}, "INVALID_FIELD"),
    ("SampleAgents", {"run": "r"}, "INVALID_FIELD"),
    ("SampleAgents", {"run": "r", "sample": asks_pb.Sample(count=10_001)}, "INVALID_FIELD"),
    ("SampleAgents", {"run": "r", "sample": asks_pb.Sample(count=1, groups=["h"])}, "INVALID_FIELD"),
    ("Survey", {"run": "r", "sample": SAMPLE}, "INVALID_FIELD"),
    ("Survey", {"run": "r", "questions": [QUESTION]}, "INVALID_FIELD"),
    ("Survey", {"run": "r", "questions": [QUESTION] * 2, "sample": SAMPLE}, "INVALID_FIELD"),
    (
        "Survey",
        {"run": "r", "questions": [QUESTION], "agents": asks_pb.AgentList(agents=["a", "a"])},
        "INVALID_FIELD",
    ),
    (
        "Survey",
        {"run": "r", "questions": [asks_pb.SurveyQuestion(name="a", text="b")], "sample": SAMPLE},
        "INVALID_FIELD",
    ),
    ("Intervene", {"run": "r", "mute": acts_pb.Mute(agent="agent-1")}, "INVALID_FIELD"),
    ("Intervene", {"run": "r", "actor": "ann"}, "INVALID_FIELD"),
    ("Intervene", {"run": "r", "actor": "ann", "inject": acts_pb.Injection(path="/")}, "INVALID_FIELD"),
    (
        "Intervene",
        {"run": "r", "actor": "a", "edit": acts_pb.Edit(path="/", key="k", value_json=DEEP)},
        "INVALID_FIELD",
    ),
    (
        "Intervene",
        {"run": "r", "actor": "a", "edit": EDIT_BAD},
        "WORLD_REFUSED",
    ),
    (
        "Intervene",
        {"run": "r", "actor": "a", "edit": EDIT_ABSENT},
        "WORLD_REFUSED",
    ),
    ("Intervene", {"run": "r", "actor": "a", "edit": EDIT_HUGE}, "WORLD_REFUSED"),
    *(("Intervene", {"run": "r", "actor": "a", "edit": edit}, "INVALID_FIELD") for edit in EDITS_REFUSED),
    ("Intervene", {"run": "r", "actor": "a", "inject": APPEND_NOWHERE}, "INVALID_FIELD"),
    ("Intervene", {"run": "r", "actor": "ann", "mute": acts_pb.Mute(agent="nobody")}, "AGENT_NOT_FOUND"),
    (
        "Intervene",
        {"run": "r", "actor": "a", "comment": "x" * 2000, "mute": acts_pb.Mute(agent="x")},
        "LIMIT_EXCEEDED",
    ),
    ("Sit", {"decide": seats_pb.Decide(turn=1)}, "INVALID_FIELD"),
    ("Sit", {}, "INVALID_FIELD"),
    ("Sit", {"take": seats_pb.TakeSeat(run="r", agent="agent-1", actor="ann", timeout_ms=1)}, "INVALID_FIELD"),
    ("Sit", {"take": seats_pb.TakeSeat(run="r", agent="nobody", actor="ann", timeout_ms=1000)}, "AGENT_NOT_FOUND"),
]


async def test_hostile_input_is_refused_with_its_reason(served: Served) -> None:
    for method, fields, reason in HOSTILE:
        got, text = await send(served, method, build(method, **fields))
        assert got == reason, (method, fields, text)
        assert "Traceback" not in text and "Error(" not in text and "\n" not in text
    assert served.node.agents == 10


async def test_populations_that_are_none_are_refused(served: Served) -> None:
    good = dump_agents(["x", "y"])
    for pieces in ([b""], [b"garbage"], [good[0][:-40]], [good[0][:100] + b"\x07" * 200], [b"x" * 1_100_000]):
        header = pb.LaunchHeader(description_json=json.dumps(describe_run("s")).encode())
        chunks = [pb.PopulationChunk(group="g", arrow_ipc=piece) for piece in pieces]
        requests = [pb.LaunchRequest(header=header), *(pb.LaunchRequest(chunk=chunk) for chunk in chunks)]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.stub.Launch(iter(requests))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert set(served.node.runs) == {"r"}


async def test_a_small_stream_does_not_become_a_large_table(served: Served) -> None:
    large = pa.array([b"\0" * 50_000_000], pa.large_binary())
    for column in (large, large.dictionary_encode()):
        table = pa.table({"agent_id": ["a"], "x": column})
        for version in (pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5):
            for codec in ("zstd", "lz4"):
                sink = io.BytesIO()
                options = pa.ipc.IpcWriteOptions(compression=codec, metadata_version=version)
                with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
                    writer.write_table(table)
                assert len(sink.getvalue()) < 500_000
                header = pb.LaunchHeader(description_json=json.dumps(describe_run("s")).encode())
                chunk = pb.PopulationChunk(group="g", arrow_ipc=sink.getvalue())
                requests = iter([pb.LaunchRequest(header=header), pb.LaunchRequest(chunk=chunk)])
                with pytest.raises(grpc.aio.AioRpcError, match="compressed") as refused:
                    await served.stub.Launch(requests)
                assert from_runtime_error(refused.value).reason == "LAUNCH_REFUSED"


async def test_ids_that_are_none_and_parts_that_do_not_cover_the_agents_are_refused(served: Served) -> None:
    for ids in (["a", "a"], ["a b"], [""], ["x" * 65]):
        assert await refuse(served, ids) == "LAUNCH_REFUSED"
    for spans in ([(0, 0, 9)], [(0, 0, 5), (1, 6, 10)], [(1, 0, 10)], [(0, 0, 20)], [(0, 0, 10), (1, 10, 5)]):
        parts = [pb.Part(group="g", number=n, first_row=first, end_row=end) for n, first, end in spans]
        assert await refuse(served, name_agents(10), parts=parts) == "LAUNCH_REFUSED"


async def refuse(served: Served, ids: list[str], **header: Any) -> str:
    """The reason with which a launch is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await served.launch(describe_run("s"), {"g": ids}, **header)
    return from_runtime_error(refused.value).reason


async def test_a_message_beyond_the_transports_bound_ends_that_call_alone(served: Served) -> None:
    reason, _ = await send(served, "Interview", b"\x0a" + b"x" * 5_000_000)
    assert reason == ""  # the transport's own word
    assert (await served.inspect()).node.agents == 10


async def test_health_and_reflection_tell_of_the_service(served: Served) -> None:
    health = health_pb2_grpc.HealthStub(served.channel)  # type: ignore[no-untyped-call]
    for name in ("", SERVICE):
        told = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert told.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    async for answer in reflection.ServerReflectionInfo(asked):
        assert SERVICE in {service.name for service in answer.list_services_response.service}
        break


async def test_a_second_node_on_the_port_is_refused(served: Served) -> None:
    port = int(served.node.address.rpartition(":")[2])
    with pytest.raises(Exception, match=r"another program listens there|in use"):
        async with serve(served.node, "127.0.0.1", port):
            pass


def test_ports_are_not_shared_and_loopback_is_told_from_the_rest() -> None:
    assert ("grpc.so_reuseport", 0) in SERVER_OPTIONS
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "example.org")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]

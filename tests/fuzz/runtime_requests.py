"""Requests to a node: good ones of every method, and what becomes of them by mutation."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import interventions_pb2 as acts_pb
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import seats_pb2 as seats_pb
from google.protobuf.message import DecodeError, Message

from tests.fuzz.messages import BLOBS, TEXTS, encode, fill
from tests.unit.agent_runtime.nodes import describe_run, dump_agents, name_agents

RUN = "r"
"""Of a node that is fuzzed: whatever comes, its agents live on."""
OTHER_RUNS = ("s0", "s1")
"""Names of runs that come and go."""
ABSENT_RUNS = ("", ".", "..", "../r", "r/../r", "/r", "r\n", "R" * 81, "nodes", "runs", "ṙ")
AGENTS = 40
DRAIN_MS_MAX = 600_000
WRONG_LAUNCHES = 0.95
"""Most of them: each good one costs processes."""

_EXTREMES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63,
        -(2**63) - 1,
        10**400,
        1e308,
        -0.0,
        0.5,
        "",
        "g",
        "\x00",
        "\udce9",
        "../x",
        "/",
    ),
    *("/dev/null", "/proc/self/mem", "/nowhere/agents.arrow", "x" * 5000, "𝒳", [], {}, [[]], {"": {}}, [None] * 300),
    *(
        {"\x00": 1},
        {"name": "g"},
        ["g"],
        float("nan"),
        float("inf"),
        "level-k",
        "os:system",
        "tests.fuzz:x",
        ":",
        "a:b:c",
    ),
)
_MODEL = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "name": "m"}


def make_request(rng: random.Random) -> tuple[str, list[bytes]]:
    """A method, and the messages that are sent to it: at random good ones, mutated ones, and bytes alone."""
    method = rng.choice(list(_MAKERS))
    if rng.random() < 0.05:
        return method, [_spare(method, rng.randbytes(rng.randrange(300)))]
    messages = _MAKERS[method](rng)
    share = rng.choice((0.0, 0.1, 0.4))
    for message in messages:
        _overwrite(rng, message, share)
    pieces = [encode(rng, one) if rng.random() < 0.3 else one.SerializePartialToString() for one in messages]
    return method, [_spare(method, piece) for piece in pieces]


def _overwrite(rng: random.Random, message: Any, share: float) -> None:
    """Puts what is hostile into `share` of a message's fields, those of its parts included."""
    for field in list(message.DESCRIPTOR.fields):
        if field.message_type is not None:
            if rng.random() < share / 4:
                message.ClearField(field.name)
            elif field.containing_oneof is None or message.WhichOneof(field.containing_oneof.name) == field.name:
                part = getattr(message, field.name)
                for one in part if isinstance(part, Sequence) else [part]:
                    _overwrite(rng, one, share)
        elif field.containing_oneof is None and rng.random() < share:
            fresh = fill(rng, type(message)(), share=1.0, depth=9)
            message.ClearField(field.name)
            if not isinstance(value := getattr(fresh, field.name), Sequence) or isinstance(value, str | bytes):
                setattr(message, field.name, value)


def _spare(method: str, data: bytes) -> bytes:
    """What ends the run that is asked all the time, or the node itself, is asked in a form that is refused."""
    try:
        if method == "Drain":
            drain = pb.DrainRequest.FromString(data)
            if 0 <= drain.drain_ms <= DRAIN_MS_MAX:
                return pb.DrainRequest(drain_ms=-1).SerializeToString()
        if method == "Stop" and (stop := pb.StopRequest.FromString(data)).run == RUN and stop.drain_ms >= 0:
            return pb.StopRequest(run=RUN, drain_ms=-1).SerializeToString()
    except DecodeError:
        pass
    return data


def mutate_description(rng: random.Random, document: dict[str, Any]) -> bytes:
    """A launch description with some of its values replaced or left out, as JSON or nearly so."""
    document = deepcopy(document)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            if rng.random() < 0.2:
                del place[key]
            else:
                place[key] = deepcopy(rng.choice(_EXTREMES))
            break
    data = json.dumps(document).encode()
    if rng.random() < 0.1:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice((b"", b"[" * 5000, b"\xff", b"1e999", rng.randbytes(3))) + data[at + 1 :]
    return data


def mutate_stream(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    """Pieces of an Arrow stream, some bytes of which are others."""
    data = bytearray(b"".join(pieces))
    for _ in range(rng.choice((0, 1, 2, 8))):
        at = rng.randrange(len(data))
        data[at : at + rng.choice((0, 1, 4))] = rng.choice(
            (b"", b"\xff", b"\x00", rng.randbytes(4), b"\x7f\xff\xff\xff")
        )
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    return [bytes(data)]


def _pick_run(rng: random.Random) -> str:
    roll = rng.random()
    return RUN if roll < 0.7 else rng.choice(OTHER_RUNS) if roll < 0.85 else rng.choice(ABSENT_RUNS)


def _pick_agent(rng: random.Random) -> str:
    roll = rng.random()
    return f"agent-{rng.randrange(AGENTS)}" if roll < 0.85 else rng.choice(("nobody", "..", "agent-1/..", "", "𝒳", "é"))


def _launch(rng: random.Random) -> list[Message]:
    document = describe_run(rng.choice((*OTHER_RUNS, *OTHER_RUNS, RUN, *ABSENT_RUNS)))
    document["seed"] = rng.randrange(3)
    if rng.random() < 0.5:
        document["models"] = {"m": dict(_MODEL), "s": {"provider": "scripted", "name": "s", "answers": ["1"]}}
        document["groups"][0]["model"] = rng.choice(("m", "s", {"weights": {"m": 1, "s": 2}}))
        document |= {"budget": {"tokens_max": 5}, "recording": "rec"}
    ids = name_agents(rng.choice((1, 3)))
    pieces, wrong = dump_agents(ids, age=list(range(len(ids)))), rng.random() < WRONG_LAUNCHES
    if wrong and rng.random() < 0.7:
        rng.choice((document, document["groups"][0]))[rng.choice(("node", "parts", "wake", "x", "seed"))] = "\x00"
    description = mutate_description(rng, document) if wrong else json.dumps(document).encode()
    header = pb.LaunchHeader(description_json=description)
    if rng.random() < 0.3:
        header.parts.add(group="g", number=0, first_row=0, end_row=len(ids))
        header.hosted.append("g.0")
    chunks = [pb.PopulationChunk(group="g", arrow_ipc=one) for one in (mutate_stream(rng, pieces) if wrong else pieces)]
    return [pb.LaunchRequest(header=header), *(pb.LaunchRequest(chunk=chunk) for chunk in chunks)]


def _stop(rng: random.Random) -> list[Message]:
    return [pb.StopRequest(run=_pick_run(rng), drain_ms=rng.choice((0, 0, 50)))]


def _drain(rng: random.Random) -> list[Message]:
    return [pb.DrainRequest(drain_ms=rng.choice((-1, DRAIN_MS_MAX + 1)))]


def _inspect(rng: random.Random) -> list[Message]:
    return [pb.InspectRequest(run=rng.choice(("", _pick_run(rng))), brief=rng.random() < 0.8)]


def _logs(rng: random.Random) -> list[Message]:
    return [pb.LogsRequest(run=_pick_run(rng), lines_max=rng.choice((0, 1, 20)), follow=rng.random() < 0.2)]


def _clean_up(rng: random.Random) -> list[Message]:
    return [pb.CleanUpRequest(run=_pick_run(rng))]


def _interview(rng: random.Random) -> list[Message]:
    question = rng.choice(("What now?", *TEXTS))
    return [asks_pb.InterviewRequest(run=_pick_run(rng), agent=_pick_agent(rng), question=question, timeout_ms=2000)]


def _make_sample(rng: random.Random) -> asks_pb.Sample:
    return asks_pb.Sample(count=rng.choice((1, 3, 10_000)), seed=rng.randrange(-5, 5), groups=rng.choice(([], ["g"])))


def _sample_agents(rng: random.Random) -> list[Message]:
    return [asks_pb.SampleAgentsRequest(run=_pick_run(rng), sample=_make_sample(rng))]


def _survey(rng: random.Random) -> list[Message]:
    request = asks_pb.SurveyRequest(run=_pick_run(rng), timeout_ms=2000)
    for number in range(rng.choice((1, 1, 2, 40))):
        kind = rng.choice((asks_pb.QUESTION_TYPE_TEXT, asks_pb.QUESTION_TYPE_NUMBER, asks_pb.QUESTION_TYPE_CHOICE))
        question = request.questions.add(name=f"q{number}", text=rng.choice(("How?", *TEXTS)), type=kind)
        if kind == asks_pb.QUESTION_TYPE_CHOICE:
            question.choices.extend(rng.choice((("a", "b"), ("a", "a"), ("", "é"), ("x" * 300, "y"))))
        if kind == asks_pb.QUESTION_TYPE_NUMBER and rng.random() < 0.5:
            question.minimum = rng.choice((0.0, float("nan"), float("inf"), -1e308))
            question.maximum = rng.choice((1.0, float("nan"), float("-inf"), 1e308))
    if rng.random() < 0.7:
        request.agents.agents.extend({_pick_agent(rng) for _ in range(rng.choice((1, 3, 30)))})
    else:
        request.sample.CopyFrom(_make_sample(rng))
    return [request]


def _intervene(rng: random.Random) -> list[Message]:
    request = acts_pb.InterveneRequest(
        run=_pick_run(rng), actor=rng.choice(("ann", "..", "a/b")), comment=rng.choice(TEXTS)
    )
    hostile = ("/absent", "/runtime/runs/r/agents", "/runtime", "/known/../runtime", *TEXTS)
    path = "/known" if rng.random() < 0.6 else rng.choice(hostile)
    key = "k" if rng.random() < 0.6 else rng.choice(("..", *TEXTS))
    value = b"1" if rng.random() < 0.3 else rng.choice(BLOBS)
    kind = rng.randrange(4)
    if kind == 0:
        request.mute.CopyFrom(acts_pb.Mute(agent=_pick_agent(rng), muted=rng.random() < 0.5))
    elif kind == 1:
        request.edit.CopyFrom(
            acts_pb.Edit(path=path, key=key, value_json=value, expect_version=rng.choice((0, 0, 1, 2**64 - 1)))
        )
    elif kind == 2:
        request.inject.path = path
        request.inject.append.CopyFrom(acts_pb.Append(key=key, value_json=value))
    else:
        request.inject.path = path
        request.inject.operation.CopyFrom(acts_pb.Operation(name=rng.choice(("open_round", *TEXTS)), args_json=value))
    return [request]


def _sit(rng: random.Random) -> list[Message]:
    take = seats_pb.TakeSeat(
        run=_pick_run(rng), agent=_pick_agent(rng), actor="ann", timeout_ms=rng.choice((100, 1000))
    )
    requests: list[Message] = [seats_pb.SitRequest(take=take)]
    for _ in range(rng.choice((0, 1, 3))):
        decide = seats_pb.Decide(turn=rng.choice((0, 1, 2**64 - 1)), report_json=rng.choice((b"", b"33.0", *BLOBS)))
        for _ in range(rng.choice((0, 1, 2, 130))):
            decide.actions.add(path=rng.choice(TEXTS), key=rng.choice(TEXTS), value_json=rng.choice(BLOBS), change=1)
        requests.append(seats_pb.SitRequest(decide=decide))
    rng.shuffle(requests) if rng.random() < 0.1 else None
    return requests


_MAKERS: dict[str, Callable[[random.Random], list[Message]]] = {
    "Launch": _launch,
    "Stop": _stop,
    "Drain": _drain,
    "Inspect": _inspect,
    "Logs": _logs,
    "CleanUp": _clean_up,
    "Interview": _interview,
    "SampleAgents": _sample_agents,
    "Survey": _survey,
    "Intervene": _intervene,
    "Sit": _sit,
}
METHODS = frozenset(_MAKERS)

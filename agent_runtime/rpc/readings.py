"""From messages to what the node knows, checked; and from the node's states back to messages."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import seats_pb2 as seats_pb

from agent_runtime.launching.parts import PARTS_MAX
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import refuse_field
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.interviews import STATUSES, Reply
from agent_runtime.node.launches import list_providers
from agent_runtime.node.logs import Line
from agent_runtime.node.node import Node
from agent_runtime.node.part_states import PartState
from agent_runtime.node.slots import WorkerSlot
from agent_runtime.node.surveys import Kind, SurveyQuestion, check_questions, dump_values
from agent_runtime.programs.usage import measure_usage
from agent_runtime.rpc.edge import parse_json
from agent_runtime.worker.commands import Choice

TIMEOUT_MS = 120_000
TIMEOUT_MS_MAX = 600_000
SEAT_TIMEOUT_MS_MIN, SEAT_TIMEOUT_MS_MAX = 100, 86_400_000
SEAT_ACTIONS_MAX = 128
_KINDS: dict[int, Kind] = {
    asks_pb.QUESTION_TYPE_TEXT: "text",
    asks_pb.QUESTION_TYPE_NUMBER: "number",
    asks_pb.QUESTION_TYPE_INTEGER: "integer",
    asks_pb.QUESTION_TYPE_BOOLEAN: "boolean",
    asks_pb.QUESTION_TYPE_CHOICE: "choice",
}
_CHANGES = {
    seats_pb.SEAT_CHANGE_SET: "set",
    seats_pb.SEAT_CHANGE_APPEND: "append",
    seats_pb.SEAT_CHANGE_INCREMENT: "increment",
}


def read_parts(messages: Sequence[pb.Part]) -> tuple[Part, ...]:
    """Parts of a run. Raises NodeError."""
    if len(messages) > PARTS_MAX:
        raise refuse_field("header.parts", f"{len(messages):,} parts, {PARTS_MAX:,} allowed")
    return tuple(Part(group=one.group, number=one.number, first=one.first_row, end=one.end_row) for one in messages)


def read_timeout_s(timeout_ms: int) -> float:
    """Time for an answer; 0 = the default. Raises NodeError."""
    if not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise refuse_field("timeout_ms", f"lies between 0 and {TIMEOUT_MS_MAX:,}")
    return (timeout_ms or TIMEOUT_MS) / 1000


def read_drain_s(drain_ms: int) -> float:
    """Time for turns to end. Raises NodeError."""
    if not 0 <= drain_ms <= TIMEOUT_MS_MAX:
        raise refuse_field("drain_ms", f"lies between 0 and {TIMEOUT_MS_MAX:,}")
    return drain_ms / 1000


def read_seat_timeout_s(timeout_ms: int) -> float:
    """Time for a decision of a person. Raises NodeError."""
    if not SEAT_TIMEOUT_MS_MIN <= timeout_ms <= SEAT_TIMEOUT_MS_MAX:
        raise refuse_field("take.timeout_ms", f"lies between {SEAT_TIMEOUT_MS_MIN} and {SEAT_TIMEOUT_MS_MAX:,}")
    return timeout_ms / 1000


def read_questions(messages: Sequence[asks_pb.SurveyQuestion]) -> list[SurveyQuestion]:
    """Typed questions. Raises NodeError."""
    questions = []
    for number, one in enumerate(messages):
        if one.type not in _KINDS:
            raise refuse_field(f"questions[{number}].type", "is none of those that there are")
        questions.append(
            SurveyQuestion(
                one.name,
                one.text,
                _KINDS[one.type],
                tuple(one.choices),
                one.minimum if one.HasField("minimum") else None,
                one.maximum if one.HasField("maximum") else None,
            )
        )
    check_questions(questions)
    return questions


def read_choices(messages: Sequence[seats_pb.SeatAction]) -> tuple[Choice, ...]:
    """What a person decided. Raises NodeError."""
    if len(messages) > SEAT_ACTIONS_MAX:
        raise refuse_field("decide.actions", f"{len(messages)} actions, {SEAT_ACTIONS_MAX} allowed")
    choices = []
    for number, one in enumerate(messages):
        where = f"decide.actions[{number}]"
        if one.change not in _CHANGES:
            raise refuse_field(f"{where}.change", "is none of those that there are")
        value = parse_json(one.value_json, f"{where}.value_json")
        change = _CHANGES[one.change]
        choices.append(Choice(name=one.name, path=one.path, key=one.key, value=value, change=change))  # type: ignore[arg-type]
    return tuple(choices)


def fill_part(state: PartState) -> pb.PartState:
    """A part as it is here."""
    part = state.part
    return pb.PartState(
        part=pb.Part(group=part.group, number=part.number, first_row=part.first, end_row=part.end),
        condition=state.condition.value,  # type: ignore[arg-type]
        worker=state.slot,
        term=state.term,
        through_revision=state.through,
        reason=state.reason,
        statistics=state.statistics,
    )


def fill_node(node: Node) -> pb.Node:
    """What the node is, and what its daemon uses."""
    settings, used = node.settings, measure_usage()
    return pb.Node(
        name=settings.name,
        address=node.address,
        world=settings.world,
        labels=settings.labels,
        capacity=settings.capacity,
        agents=node.agents,
        processes_max=settings.processes_max,
        providers=list_providers(),
        workers=settings.workers,
        draining=node.is_draining,
        versions=node.versions,
        pid=os.getpid(),
        cpu_s=used["cpu_s"],
        rss_anon_bytes=int(used["rss_anon_bytes"]),
    )


def fill_run(hosting: HostedRun, workers: Sequence[pb.WorkerState]) -> pb.RunState:
    """A run as it is here, with the parts that were here."""
    return pb.RunState(
        run=hosting.run,
        spec_hash=hosting.description.spec_hash,
        agents=hosting.agents,
        parts=[fill_part(state) for state in (*hosting.parts.values(), *hosting.gone)],
        workers=workers,
    )


async def ask_worker(slot: WorkerSlot, timeout_s: float, *, brief: bool) -> pb.WorkerState:
    """How a worker is; its parts' statistics are brought up to date on the way."""
    told = {} if brief else await slot.inspect(timeout_s)
    for name, figures in (told.get("parts") or {}).items():
        state = slot.parts.get(name)
        if state is not None:
            state.through = int(figures.get("through") or state.through)
            state.statistics = {
                key: count
                for key, count in figures.items()
                if isinstance(count, int) and key not in ("term", "through")
            }
    used = told.get("usage") or {}
    return pb.WorkerState(
        index=slot.index,
        pid=slot.pid,
        restarts=slot.restarts,
        parts=sorted(slot.parts),
        cpu_s=float(used.get("cpu_s") or 0),
        rss_anon_bytes=int(used.get("rss_anon_bytes") or 0),
        last_failure=slot.last_failure,
    )


def fill_line(line: Line) -> pb.LogLine:
    """A line of the log."""
    return pb.LogLine(wall_time_ns=line.wall_time_ns, run=line.run, worker=line.worker, text=line.text)


def fill_answer(reply: Reply) -> asks_pb.InterviewResponse:
    """What an agent said."""
    return asks_pb.InterviewResponse(
        agent=reply.agent,
        status=fill_status(reply),
        text=reply.text,
        reason=reply.reason,
        state_hash_before=reply.hash_before,
        state_hash_after=reply.hash_after,
    )


def fill_row(reply: Reply) -> asks_pb.SurveyRow:
    """A row of a survey."""
    return asks_pb.SurveyRow(
        agent=reply.agent,
        group=reply.group,
        status=fill_status(reply),
        reason=reply.reason or (reply.text if reply.status == "rule" else ""),
        answers_json=dump_values(reply),
        model=reply.model,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        latency_ms=reply.latency_ms,
    )


def fill_status(reply: Reply) -> asks_pb.AnswerStatus.ValueType:
    """The status of an answer."""
    return STATUSES.index(reply.status) + 1  # type: ignore[return-value]

"""From messages of a node to what the SDK shows, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_api.v1 import asking_pb2 as asks_pb
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import seats_pb2 as seats_pb

from ecumene.client.model import Json
from ecumene.client.runtime_model import (
    AnswerStatus,
    Interview,
    LogLine,
    NodeInfo,
    NodeRecord,
    PartCondition,
    PartInfo,
    PartSpan,
    RunInfo,
    SeatAction,
    SeatOutcome,
    SeatTurn,
    SurveyQuestion,
    SurveyRow,
    WorkerInfo,
)

_CHANGES = {
    "set": seats_pb.SEAT_CHANGE_SET,
    "append": seats_pb.SEAT_CHANGE_APPEND,
    "increment": seats_pb.SEAT_CHANGE_INCREMENT,
}


def read_part(message: pb.PartState) -> PartInfo:
    """A part on a node."""
    part = message.part
    return PartInfo(
        PartSpan(part.group, part.number, part.first_row, part.end_row),
        PartCondition(message.condition),
        message.worker,
        message.term,
        message.through_revision,
        message.reason,
        dict(message.statistics),
    )


def read_node(message: pb.InspectResponse) -> NodeInfo:
    """A node with its runs."""
    node = message.node
    return NodeInfo(
        name=node.name,
        address=node.address,
        world=node.world,
        labels=dict(node.labels),
        capacity=node.capacity,
        agents=node.agents,
        processes_max=node.processes_max,
        providers=tuple(node.providers),
        workers=node.workers,
        is_draining=node.draining,
        versions=dict(node.versions),
        pid=node.pid,
        cpu_s=node.cpu_s,
        rss_anon_bytes=node.rss_anon_bytes,
        runs=tuple(_read_run(run) for run in message.runs),
    )


def read_record(name: str, value: Any) -> NodeRecord | None:
    """A node as its world lists it; None if the entry is none that a node wrote."""
    if not isinstance(value, Mapping) or not isinstance(value.get("address"), str):
        return None
    labels = value.get("labels")
    return NodeRecord(
        name=name,
        address=value["address"],
        labels={str(key): str(one) for key, one in labels.items()} if isinstance(labels, Mapping) else {},
        capacity=int(value.get("capacity") or 0),
        models=tuple(map(str, value.get("models") or ())),
        version=str(value.get("version") or ""),
        workers=max(1, int(value.get("workers") or 1)),
        processes=int(value.get("processes") or 0),
    )


def read_line(message: pb.LogLine) -> LogLine:
    """A line of a node's log."""
    return LogLine(message.wall_time_ns, message.run, message.worker, message.text)


def read_interview(message: asks_pb.InterviewResponse) -> Interview:
    """What an agent said."""
    return Interview(
        message.agent,
        AnswerStatus(message.status),
        message.text,
        message.reason,
        message.state_hash_before,
        message.state_hash_after,
    )


def read_row(message: asks_pb.SurveyRow) -> SurveyRow:
    """A row of a survey."""
    answers = json.loads(message.answers_json) if message.answers_json else {}
    return SurveyRow(
        message.agent,
        message.group,
        AnswerStatus(message.status),
        message.reason,
        answers,
        message.model,
        message.prompt_tokens,
        message.completion_tokens,
        message.latency_ms,
    )


def read_turn(message: seats_pb.SeatTurn) -> SeatTurn:
    """A turn that waits for a person."""
    events = tuple(json.loads(message.events_json)) if message.events_json else ()
    return SeatTurn(message.turn, message.revision, events, message.asks_report, message.timeout_ms / 1000)


def read_outcome(message: seats_pb.SeatOutcome) -> SeatOutcome:
    """How a turn of a seat ended."""
    return SeatOutcome(message.turn, message.status, message.reason)


def fill_question(question: SurveyQuestion) -> asks_pb.SurveyQuestion:
    """A typed question."""
    message = asks_pb.SurveyQuestion(
        name=question.name,
        text=question.text,
        type=int(question.type),  # type: ignore[arg-type]
        choices=question.choices,
    )
    if question.minimum is not None:
        message.minimum = question.minimum
    if question.maximum is not None:
        message.maximum = question.maximum
    return message


def fill_parts(parts: Sequence[PartSpan]) -> list[pb.Part]:
    """Parts of a run."""
    return [
        pb.Part(group=part.group, number=part.number, first_row=part.first_row, end_row=part.end_row) for part in parts
    ]


def fill_action(action: SeatAction) -> seats_pb.SeatAction:
    """An action of a person."""
    return seats_pb.SeatAction(
        name=action.name,
        path=action.path,
        key=action.key,
        value_json=dump(action.value),
        change=_CHANGES.get(action.change, seats_pb.SEAT_CHANGE_UNSPECIFIED),
    )


def dump(value: Json) -> bytes:
    """A JSON value."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _read_run(message: pb.RunState) -> RunInfo:
    return RunInfo(
        message.run,
        message.spec_hash,
        message.agents,
        tuple(read_part(part) for part in message.parts),
        tuple(
            WorkerInfo(
                worker.index,
                worker.pid,
                worker.restarts,
                tuple(worker.parts),
                worker.cpu_s,
                worker.rss_anon_bytes,
                worker.last_failure,
            )
            for worker in message.workers
        ),
    )

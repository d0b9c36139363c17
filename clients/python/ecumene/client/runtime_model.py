"""What is known of a runtime's nodes, of the runs on them, and of what agents answer."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ecumene.client.model import Json


@dataclass(frozen=True, slots=True)
class PartSpan:
    """A piece of a group: agents [first_row, end_row)."""

    group: str
    number: int
    first_row: int
    end_row: int

    @property
    def name(self) -> str:
        """Its key in the world."""
        return f"{self.group}.{self.number}"

    def __len__(self) -> int:
        return self.end_row - self.first_row


class PartCondition(enum.IntEnum):
    """How a part is on a node."""

    UNKNOWN = 0
    STARTING = 1
    LIVE = 2
    STOPPED = 3
    HANDED_OVER = 4
    GIVEN_UP = 5

    @classmethod
    def _missing_(cls, value: object) -> PartCondition:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part on a node."""

    span: PartSpan
    condition: PartCondition
    worker: int
    term: int
    """A later owner's is higher; 0 = it is not owned there."""
    through_revision: int
    """Every event up to it has its effect."""
    reason: str
    statistics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process on a node."""

    index: int
    pid: int
    """0 = it does not run now."""
    restarts: int
    parts: tuple[str, ...]
    cpu_s: float
    rss_anon_bytes: int
    last_failure: str


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run on a node."""

    run: str
    spec_hash: str
    agents: int
    parts: tuple[PartInfo, ...]
    workers: tuple[WorkerInfo, ...]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node."""

    name: str
    address: str
    world: str
    labels: Mapping[str, str]
    capacity: int
    agents: int
    processes_max: int
    providers: tuple[str, ...]
    workers: int
    is_draining: bool
    versions: Mapping[str, str]
    pid: int
    cpu_s: float
    rss_anon_bytes: int
    runs: tuple[RunInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Launched:
    """What a node hosts of a run after a launch."""

    node: str
    parts: tuple[PartInfo, ...]
    agents: int
    revision: int
    """Events of later revisions wake the agents."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a node or one of its workers wrote; `run` "" = the node's own."""

    wall_time_ns: int
    run: str
    worker: int
    text: str


class AnswerStatus(enum.IntEnum):
    """What came of asking an agent."""

    UNKNOWN = 0
    OK = 1
    RULE = 2
    """It decides by a rule and has no opinions; the text says by which."""
    PARSE_ERROR = 3
    TRUNCATED = 4
    REFUSED = 5
    TIMEOUT = 6
    BUDGET = 7
    CANCELLED = 8
    ERROR = 9
    ABSENT = 10
    """No such agent lives there."""

    @classmethod
    def _missing_(cls, value: object) -> AnswerStatus:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Interview:
    """What an agent said."""

    agent: str
    status: AnswerStatus
    text: str
    reason: str
    state_hash_before: str
    state_hash_after: str
    """Of the copy that was asked: equal to the one before."""


class QuestionType(enum.IntEnum):
    """What an answer is."""

    TEXT = 1
    NUMBER = 2
    INTEGER = 3
    BOOLEAN = 4
    CHOICE = 5


@dataclass(frozen=True, slots=True)
class SurveyQuestion:
    """A typed question. `name`: of its column."""

    name: str
    text: str
    type: QuestionType = QuestionType.TEXT
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """What one agent answered: values by question, none unless the status is OK."""

    agent: str
    group: str
    status: AnswerStatus
    reason: str
    answers: Mapping[str, Json]
    model: str = ""
    """That was asked; empty of a rule."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Of all questions and attempts together."""
    latency_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Sampled:
    """An agent that was drawn; the smallest priorities over all nodes are the sample of the run."""

    agent: str
    group: str
    priority: int


@dataclass(frozen=True, slots=True)
class Intervention:
    """What an intervention came to. `note`: its key in /runtime/runs/RUN/interventions."""

    note: str
    revision: int
    result: Json = None


@dataclass(frozen=True, slots=True)
class SeatTurn:
    """A turn that waits for the person in an agent's seat."""

    turn: int
    revision: int
    events: tuple[Mapping[str, Any], ...]
    asks_report: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class SeatOutcome:
    """How a turn of a seat ended; `refused` is not its end: decide again."""

    turn: int
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class SeatAction:
    """A change of the world that a person decides on; `change` is `set`, `append` or `increment`."""

    name: str
    path: str
    key: str
    value: Json = None
    change: str = "set"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A living node, as its world lists it."""

    name: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: int = 0
    models: tuple[str, ...] = ()
    version: str = ""
    workers: int = 1
    processes: int = 0

"""The recorded tables, stated once: writers, readers and documentation follow this file.

All text is UTF-8. Durations end in `_ms`, instants in `_ns` (wall: since 1970 UTC, simulated: of the
nearest environment's clock, as on the wire). Revisions are those of the run's world. Ids never change:
(run, agent, turn) names a turn, (run, agent, turn, seq) an action, (run, agent, turn, call) a model call,
(run, revision, index) an event,
(run, survey, moment, round, agent, question) an answer. Rows are unordered; after a crash a row may
stand twice, equal ids then mean the same fact, and the later part is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# Raised when a column changes its meaning or goes; a new nullable column does not raise it.
SCHEMA_VERSION = 1

Kind = Literal["text", "category", "int16", "int32", "int64", "float64"]


class TurnStatus(StrEnum):
    """How a turn ended. Every turn ends in exactly one."""

    OK = "ok"
    FALLBACK = "fallback"
    PARSE_ERROR = "parse_error"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    CANCELLED = "cancelled"
    ERROR = "error"

    @property
    def acted(self) -> bool:
        """Whether such a turn did what it was woken for, be it by its fallback."""
        return self in (TurnStatus.OK, TurnStatus.FALLBACK)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, kind, meaning with unit, and whether a row may lack it.

    A category has few distinct values and is dictionary-encoded. A bulky column counts by its
    characters against the limit of what waits in memory.
    """

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False
    bulky: bool = False


@dataclass(frozen=True)
class Table:
    """A recorded table: its name, its columns, and those of them that together name a row for ever."""

    name: str
    columns: tuple[Column, ...]
    ids: tuple[str, ...]

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(column.name for column in self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema; its metadata names the table and the version. Needs pyarrow."""
        import pyarrow as pa

        types = {
            "text": pa.string(),
            "category": pa.dictionary(pa.int32(), pa.string()),
            "int16": pa.int16(),
            "int32": pa.int32(),
            "int64": pa.int64(),
            "float64": pa.float64(),
        }
        fields = [
            pa.field(column.name, types[column.kind], column.nullable, {"meaning": column.meaning})
            for column in self.columns
        ]
        return pa.schema(fields, {"ecumene.table": self.name, "ecumene.schema_version": str(SCHEMA_VERSION)})


_RUN = Column("run", "category", "id of the run")
_AGENT = Column("agent", "text", "id of the agent")
_GROUP = Column("group", "category", "group of the population that the agent belongs to; null = none", nullable=True)
_TURN = Column("turn", "int64", "number of the turn among those of its agent, from 1")
_ROUND = Column("round", "int32", "round of the experiment, from 1; null outside of rounds", nullable=True)
_SIM_TIME = Column("sim_time_ns", "int64", "simulated time, ns; null without a clock", nullable=True)
_OBSERVED_AT = Column(
    "observed_at_ns", "int64", "commit of what woke the agent, ns since 1970 UTC; null = unknown", nullable=True
)
_REASON = Column("reason", "category", "why it is not ok, one line; null if ok", nullable=True)
_VALUE = (
    Column("value_kind", "category", "null, bool, int, double, string, bytes or json; null = no value", nullable=True),
    Column("value_double", "float64", "the value of kind double", nullable=True),
    Column("value_int", "int64", "the value of kind int; 0 or 1 of kind bool", nullable=True),
    Column("value_text", "text", "the value of kind string; Base64 of kind bytes", nullable=True, bulky=True),
    Column("value_json", "text", "the value of kind json, one document", nullable=True, bulky=True),
)

TURNS = Table(
    "turns",
    (
        _RUN,
        _AGENT,
        _GROUP,
        _TURN,
        _ROUND,
        Column("observation_revision", "int64", "revision that the agent saw"),
        _SIM_TIME,
        Column("wall_time_ns", "int64", "start of the turn, ns since 1970 UTC"),
        Column("status", "category", "a TurnStatus"),
        _REASON,
        Column("attempts", "int16", "model requests made, repeats included; 0 of a rule agent"),
        Column("prompt_tokens", "int32", "tokens sent, all attempts"),
        Column("completion_tokens", "int32", "tokens received, all attempts"),
        Column("latency_ms", "float64", "from the waking event to the outcome, ms"),
        Column("model", "category", "the model asked; null of a rule agent", nullable=True),
        Column("mode", "category", "how the answer's shape was asked for; null of a rule agent", nullable=True),
        Column("flags", "category", "what was noticed in the answer, comma-separated; null = nothing", nullable=True),
        _OBSERVED_AT,
        Column("method", "category", "method that a workflow called; null of all other turns", nullable=True),
    ),
    ids=("run", "agent", "turn"),
)

ACTIONS = Table(
    "actions",
    (
        _RUN,
        _AGENT,
        _GROUP,
        _TURN,
        Column("seq", "int16", "place among the actions of its turn, from 0"),
        _ROUND,
        Column("action", "category", "what the agent decided, by name"),
        Column("path", "category", "the environment that it changes"),
        Column("key", "text", "the entry in it; empty = the environment"),
        *_VALUE,
        Column("commit_revision", "int64", "revision of its commit; null = it took no effect", nullable=True),
        Column("observation_revision", "int64", "revision that the agent saw when it decided", nullable=True),
        Column("sim_time_ns", "int64", "simulated time that it saw, ns; null without a clock", nullable=True),
        _OBSERVED_AT,
    ),
    ids=("run", "agent", "turn", "seq"),
)

CALLS = Table(
    "calls",
    (
        _RUN,
        _AGENT,
        _TURN,
        Column("call", "int16", "place among the model calls of its turn, from 0"),
        Column("phase", "category", "what the question was for; null = nothing in particular", nullable=True),
        Column("wall_time_ns", "int64", "start of the call, ns since 1970 UTC"),
        Column("model", "category", "the model asked"),
        Column("mode", "category", "how the answer's shape was asked for", nullable=True),
        Column("status", "category", "a TurnStatus"),
        _REASON,
        Column("finish_reason", "category", "as the endpoint gave it", nullable=True),
        Column("attempts", "int16", "requests made for this call, repeats included"),
        Column("prompt_tokens", "int32", "tokens sent"),
        Column("completion_tokens", "int32", "tokens received"),
        Column("microdollars", "int64", "what it cost, millionths of a dollar", nullable=True),
        Column("cached", "int16", "1 = the cache gave the whole answer, and nobody was asked", nullable=True),
        Column("latency_ms", "float64", "from the question to its answer, waiting included, ms"),
        Column("temperature", "float64", "null = the endpoint's default", nullable=True),
        Column("seed", "int64", "sampling seed sent; null = none", nullable=True),
        Column("request_hash", "text", "names the request for replay", nullable=True),
        Column("request_json", "text", "the request; null unless bodies are recorded", nullable=True, bulky=True),
        Column("response_text", "text", "the answer; null unless bodies are recorded", nullable=True, bulky=True),
        Column(
            "extract_text",
            "text",
            "what a second call extracted; null = no such call",
            nullable=True,
            bulky=True,
        ),
        Column("tool_calls_json", "text", "tools that it called; null = none, or no bodies", nullable=True, bulky=True),
    ),
    ids=("run", "agent", "turn", "call"),
)

EVENTS = Table(
    "events",
    (
        _RUN,
        Column("revision", "int64", "revision of the change"),
        Column("index", "int32", "place within its revision, from 0"),
        Column("type", "category", "type of the event, as on the wire without prefix, in lower case"),
        Column("path", "category", "the environment"),
        Column("key", "text", "the entry; empty = the environment"),
        *_VALUE,
        Column("version", "int64", "version after the change", nullable=True),
        Column("actor", "text", "who acted", nullable=True),
        Column("cause", "text", "id of what led to it", nullable=True),
        Column("producer", "text", "who sent it", nullable=True),
        Column("producer_seq", "int64", "sequence number of the producer", nullable=True),
        _SIM_TIME,
        Column("wall_time_ns", "int64", "commit, ns since 1970 UTC"),
    ),
    ids=("run", "revision", "index"),
)

SURVEYS = Table(
    "surveys",
    (
        _RUN,
        Column("kind", "category", "survey or interview"),
        Column("survey", "category", "its name in the spec"),
        Column("moment", "category", "before, after_round or after: when it was asked"),
        Column("round", "int32", "round after which it was asked, from 1; null before and after all", nullable=True),
        _AGENT,
        _GROUP,
        Column("question", "category", "name of the question"),
        Column("type", "category", "text, number, integer, boolean, choice or scale"),
        Column(
            "answer_text", "text", "the answer as text; yes or no of a boolean; null = none", nullable=True, bulky=True
        ),
        Column("answer_number", "float64", "the answer as a number; 1 or 0 of a boolean; null = none", nullable=True),
        Column("status", "category", "ok, unsupported (decides by a rule), or why there is no answer"),
        _REASON,
        Column("model", "category", "the model asked; null of a rule agent", nullable=True),
        Column("prompt_tokens", "int32", "tokens sent for all questions together; 0 but for the first"),
        Column("completion_tokens", "int32", "tokens received for all questions together; 0 but for the first"),
        Column("latency_ms", "float64", "from the question to the answer to all of them, waiting included, ms"),
    ),
    ids=("run", "kind", "survey", "moment", "round", "agent", "question"),
)

TABLES = (TURNS, ACTIONS, CALLS, EVENTS, SURVEYS)


def find_table(name: str) -> Table:
    """The table of a name. Raises KeyError."""
    return {table.name: table for table in TABLES}[name]

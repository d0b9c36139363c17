"""Answers to messages."""

from typing import Any

from env_api.v1 import errors_pb2, session_pb2

from env_server.model.entries import COUNTER, STREAM, VALUE, Entry, StreamEnds, StreamItem
from env_server.model.environments import (
    Aggregate,
    AggregateValue,
    Declaration,
    EnvironmentState,
    Function,
    Gate,
    GateCause,
    GateState,
)
from env_server.model.errors import LimitExceeded, PreconditionFailed
from env_server.model.frames import (
    AggregatesRead,
    Answer,
    EntryPage,
    EntryRead,
    EnvironmentPage,
    Invoked,
    Listed,
    StreamPage,
    Transacted,
    Written,
)
from env_server.model.limits import Limits
from env_server.model.values import NOTHING, Json
from env_server.rpc.encode.answers import encode_answer, encode_refusal

LIMITS = Limits()


def encode(answer: Answer, limits: Limits = LIMITS) -> list[session_pb2.FrameAnswer]:
    return [session_pb2.SessionResponse.FromString(raw).answer for raw in encode_answer(answer, limits)]


def encode_outcome(outcome: Any) -> Any:
    (answer,) = encode(Answer(1, 1, 0, outcomes=[Listed(0, outcome)]))
    return answer.outcomes[0]


def test_a_frame_that_succeeded_costs_nothing_per_op() -> None:
    answer = Answer(7, 4000, 10, revision=4010)
    (raw,) = encode_answer(answer, LIMITS)
    assert len(raw) < 32
    (message,) = encode(answer)
    assert (message.seq, message.count, message.base_revision, message.revision) == (7, 4000, 10, 4010)
    assert not message.more


def test_columns_are_kept() -> None:
    answer = Answer(1, 4, 10, part=2, without_revision=[1], pending=[3], versions=[1, 0, 5, 0])
    (message,) = encode(answer)
    assert (message.part, list(message.without_revision), list(message.pending)) == (2, [1], [3])
    assert list(message.versions) == [1, 0, 5, 0]


def test_outcomes_of_every_kind() -> None:
    error = encode_outcome(PreconditionFailed("version", version=3, revision=9)).error
    assert (error.reason, error.metadata["version"]) == (errors_pb2.ERROR_REASON_PRECONDITION_FAILED, "3")
    written = encode_outcome(Written(5, 2, 7.5, 3)).written
    assert (written.revision, written.version, written.value.double_value, written.sequence) == (5, 2, 7.5, 3)
    assert written.changed
    assert not encode_outcome(Written(5, 2)).written.HasField("value")
    invoked = encode_outcome(Invoked(4, Json(b"[1]"), changed=True)).invoke
    assert (invoked.revision, invoked.result_json, invoked.changed) == (4, b"[1]", True)
    transacted = encode_outcome(Transacted(4, (Written(4, 1), Written(4, 2)))).transact
    assert [written.version for written in transacted.written] == [1, 2]


def test_a_duplicate_is_marked() -> None:
    (message,) = encode(Answer(1, 3, 0, outcomes=[Listed(2, Written(1, 1), duplicate=True)]))
    assert (message.outcomes[0].index, message.outcomes[0].duplicate) == (2, True)


def test_entries_of_every_kind() -> None:
    values: list[tuple[Any, str]] = [
        (None, "null_value"),
        (False, "bool_value"),
        (-1, "int_value"),
        (0.5, "double_value"),
        ("", "string_value"),
        (b"", "bytes_value"),
        (Json(b"{}"), "json_value"),
    ]
    for value, kind in values:
        entry = encode_outcome(EntryRead("/a", "k", Entry(value, 3, 1, 2, VALUE))).query.entry
        assert entry.value.WhichOneof("kind") == kind
        assert (entry.path, entry.key, entry.kind, entry.version) == ("/a", "k", VALUE, 3)
        assert (entry.create_revision, entry.modify_revision) == (1, 2)
    assert encode_outcome(EntryRead("/a", "k", Entry(9, 1, 1, 1, COUNTER))).query.entry.kind == COUNTER
    stream = encode_outcome(EntryRead("/a", "k", Entry(StreamEnds(2, 5, 9), 1, 1, 1, STREAM))).query.entry
    assert (stream.stream_first, stream.stream_next, stream.HasField("value")) == (2, 5, False)
    assert not encode_outcome(EntryRead("/a", "k", Entry(NOTHING, 1, 1, 1, STREAM))).query.entry.HasField("value")


def test_environments_with_what_they_declare() -> None:
    gate = Gate("g", 3, 50, generation=2, opened=True, cause=GateCause.COUNT, begin_revision=5, open_revision=8)
    aggregate = Aggregate("m", Function.MEAN, field=("a/b", "c~d"))
    declaration = Declaration("room", {"l": "v"}, Json(b"[1]"), None, (aggregate,), (gate,))
    state = EnvironmentState("/a", 4, declaration, 7, 1, 6, 10, 2, (GateState(gate, 3),))
    message = encode_outcome(state).query.environment
    assert (message.path, message.kind, dict(message.labels), message.config_json) == ("/a", "room", {"l": "v"}, b"[1]")
    assert message.aggregates[0].field == "/a~1b/c~0d"
    assert (message.gates[0].generation, message.gates[0].reported, message.gates[0].cause) == (2, 3, 1)
    assert (message.version, message.entry_count, message.child_count) == (7, 10, 2)
    page = encode_outcome(EnvironmentPage([state], "t", 6)).query.environments
    assert (page.environments[0].path, page.next_page_token, page.revision) == ("/a", "t", 6)


def test_pages_and_aggregates() -> None:
    page = encode_outcome(EntryPage("/a", [("k", Entry(1, 1, 1, 1, VALUE))], "t", 6)).query.entries
    assert (page.entries[0].path, page.entries[0].key, page.next_page_token) == ("/a", "k", "t")
    stream = encode_outcome(StreamPage([StreamItem(3, "x", 9)], 3, 4)).query.stream
    assert (stream.items[0].sequence, stream.items[0].value.string_value, stream.first_kept) == (3, "x", 3)
    values = [
        AggregateValue("n", Function.COUNT, 3, 2, 3),
        AggregateValue("m", Function.MEAN, 3, 0, None),
        AggregateValue("h", Function.HISTOGRAM, 3, 3, None, (1, 2)),
    ]
    read = encode_outcome(AggregatesRead(values, ())).query.aggregates
    assert read.values[0].value.int_value == 3
    assert not read.values[1].HasField("value")
    assert list(read.values[2].buckets) == [1, 2]


def test_a_long_answer_goes_on_in_further_messages() -> None:
    limits = Limits(message_bytes_max=10_000, frame_ops_max=10)
    entry = Entry("x" * 1500, 1, 1, 1, VALUE)
    answer = Answer(3, 20, 5, versions=[0] * 20, revision=9)
    answer.outcomes = [Listed(index, EntryRead("/a", str(index), entry)) for index in range(20)]
    raws = list(encode_answer(answer, limits))
    assert len(raws) > 2
    assert all(len(raw) <= limits.message_bytes_max for raw in raws)
    messages = encode(answer, limits)
    assert [message.more for message in messages] == [True] * (len(messages) - 1) + [False]
    assert [outcome.index for message in messages for outcome in message.outcomes] == list(range(20))
    assert messages[0].base_revision == 5
    assert len(messages[0].versions) == 20
    assert all(message.seq == 3 and message.count == 20 for message in messages)


def test_an_outcome_that_fits_in_no_message_names_the_limit() -> None:
    limits = Limits(message_bytes_max=10_000, frame_ops_max=10)
    page = EntryPage("/a", [(str(i), Entry("x" * 1000, 1, 1, 1, VALUE)) for i in range(20)], "", 1)
    (message,) = encode(Answer(1, 1, 0, outcomes=[Listed(0, page)]), limits)
    assert message.outcomes[0].error.metadata["limit"] == "message_bytes_max"


def test_a_refused_frame_has_one_outcome_behind_its_last_op() -> None:
    raw = encode_refusal(4, 9000, LimitExceeded("frame_ops_max", 4096, 9000))
    answer = session_pb2.SessionResponse.FromString(raw).answer
    assert (answer.seq, answer.count, len(answer.outcomes), answer.outcomes[0].index) == (4, 9000, 1, 9000)
    assert answer.outcomes[0].error.metadata["limit"] == "frame_ops_max"

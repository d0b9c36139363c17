"""Outcomes and answers come back as they were; errors by what they say."""

import json

import pytest

from env_server.model import errors
from env_server.model.errors import Executed, Reason, WorldError
from env_server.model.frames import Answer, Invoked, Listed, Outcome, StreamPage, Transacted, Written
from env_server.model.values import Json, Value
from env_server.storage.outcomes import decode_answer, decode_outcome, encode_answer, encode_outcome

ERRORS = [
    errors.InvalidRequest(Reason.INVALID_KEY, "key", "must not be empty"),
    errors.LimitExceeded("value_bytes_max", 10, 11),
    errors.NotFound(Reason.ENTRY_NOT_FOUND, path="/town", key="x"),
    errors.AlreadyExists(Reason.ENVIRONMENT_EXISTS, path="/town"),
    errors.PreconditionFailed("version", version=3, revision=9, expected="2"),
    errors.WrongState(Reason.HAS_CHILDREN, "has children"),
    errors.GateClosed("/town", asked=1, generation=2, opened=False),
    errors.HistoryMismatch("main", history="h", asked="g"),
    errors.KindMismatch("/town", "x", kind="stream", wanted="value"),
    errors.OperationRefused("too_low", "bid more", minimum="5"),
    errors.OutOfRange(Reason.COUNTER_OVERFLOW, "too large"),
    errors.RevisionCompacted(3, 7),
    errors.ArrivalUnseen(),
    errors.OutcomeNotKept(),
    errors.SessionExpired("c"),
    errors.Exhausted(Reason.QUEUE_FULL, "full", retry_delay_ms=50),
    errors.Unavailable(Reason.DRAINING, "draining"),
    errors.DeadlineExceeded("too late", Executed.UNKNOWN),
    errors.DeadlineExceeded("too late", Executed.NO),
    errors.NotSupported("clock"),
    errors.Fenced("another one consumes it", subscription="s"),
    errors.DeniedView("/a", "/b", "read"),
    errors.SnapshotDamaged("s-1", "the checksum does not match"),
    errors.WorldUnreadable("main"),
    errors.FenceFallen("'part' of /parts is no longer yours", path="/parts", key="part"),
    errors.InternalError("4711"),
]


class BidRefused(errors.OperationRefused):
    """A behaviour's own class, unknown to storage."""


def fields(error: Outcome) -> tuple[object, ...]:
    assert isinstance(error, WorldError)
    return type(error), error.reason, str(error), error.message, error.metadata, error.violations, error.retry_delay_ms


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_come_back_with_their_class(error: WorldError) -> None:
    returned = decode_outcome(encode_outcome(error))
    assert fields(returned) == fields(error)
    assert isinstance(returned, WorldError)
    assert returned.executed is error.executed


def test_every_class_of_error_is_tried() -> None:
    classes = {part for part in vars(errors).values() if isinstance(part, type) and issubclass(part, WorldError)}
    assert classes - {type(error) for error in ERRORS} == {WorldError}


def test_a_class_that_storage_does_not_know_becomes_its_ancestor() -> None:
    returned = decode_outcome(encode_outcome(BidRefused("too_low", "bid more")))
    assert type(returned) is errors.OperationRefused


def test_a_class_that_is_gone_becomes_the_plain_error() -> None:
    form = json.loads(encode_outcome(ERRORS[0]))
    form["error"]["class"] = "Forgotten"
    returned = decode_outcome(json.dumps(form).encode())
    assert fields(returned) == (WorldError, *fields(ERRORS[0])[1:])


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -(2**63), 1.0, -0.0, 1e300, "", "ä", b"", b"\xff", Json(b" [1]")]
)
def test_written_keeps_value_and_type(value: Value) -> None:
    written = Written(2**63, 7, value, 9, False)
    returned = decode_outcome(encode_outcome(written))
    assert isinstance(returned, Written)
    assert returned == written
    assert type(returned.value) is type(value)
    assert repr(returned.value) == repr(value)


@pytest.mark.parametrize(
    "outcome",
    [
        Invoked(5, Json(b'{"a":"\xc3\xa4"}'), True),
        Transacted(5, (Written(5, 1), Written(5, 2, 1.5)), True),
        Transacted(0, ()),
    ],
)
def test_other_outcomes_come_back(outcome: Outcome) -> None:
    assert decode_outcome(encode_outcome(outcome)) == outcome


def test_reads_are_not_kept() -> None:
    with pytest.raises(TypeError):
        encode_outcome(StreamPage([], 1, 1))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, 0, 0),
        Answer(
            seq=7,
            count=5,
            base_revision=100,
            part=2,
            without_revision=[1, 3],
            outcomes=[Listed(0, Written(1, 2)), Listed(4, Written(1, 2, b"x"), True)],
            pending=[2],
            versions=[1, 0, 0, 0, 2],
            revision=103,
        ),
        Answer(1, 3, 0, without_revision=[1], dropped=[0, 1]),
        Answer(1, 1, 0, versions=[]),
    ],
)
def test_answers_come_back(answer: Answer) -> None:
    assert decode_answer(encode_answer(answer)) == answer

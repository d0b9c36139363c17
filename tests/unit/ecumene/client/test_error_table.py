"""The table of reasons is total, and errors arrive as the same exceptions by every way."""

from __future__ import annotations

import ecumene
import grpc
import pytest
from ecumene.client import error_table, errors, reasons, space_reasons, timeline_reasons
from env_api.v1 import errors_pb2
from google.rpc import error_details_pb2, status_pb2

ALL_REASONS = [value.name for value in errors_pb2.ErrorReason.DESCRIPTOR.values if value.number]
CODES_IN_CONTRACT = {
    range(1, 20): grpc.StatusCode.INVALID_ARGUMENT,
    range(20, 40): grpc.StatusCode.NOT_FOUND,
    range(40, 60): grpc.StatusCode.ALREADY_EXISTS,
    range(60, 80): grpc.StatusCode.ABORTED,
    range(80, 100): grpc.StatusCode.FAILED_PRECONDITION,
    range(100, 120): grpc.StatusCode.OUT_OF_RANGE,
    range(120, 140): grpc.StatusCode.RESOURCE_EXHAUSTED,
    range(140, 160): grpc.StatusCode.UNAVAILABLE,
    range(160, 180): grpc.StatusCode.DEADLINE_EXCEEDED,
    range(200, 220): grpc.StatusCode.UNIMPLEMENTED,
    range(220, 240): grpc.StatusCode.INTERNAL,
}


def make_trailer(reason: str, domain: str = "ecumene", **metadata: str) -> grpc.aio.Metadata:
    status = status_pb2.Status(code=10, message="said the server")
    status.details.add().Pack(error_details_pb2.RetryInfo())
    info = error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)
    status.details.add().Pack(info)
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="key", description="too long")
    status.details.add().Pack(bad)
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    status.details.add().Pack(retry)
    return grpc.aio.Metadata((error_table.STATUS_TRAILER, status.SerializeToString()))


def make_rpc_error(trailer: grpc.aio.Metadata, details: str = "bare") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.ABORTED, grpc.aio.Metadata(), trailer, details)


def test_every_reason_of_the_contract_has_a_row_and_no_row_is_without_a_reason() -> None:
    assert set(error_table.REASONS) == {name.removeprefix("ERROR_REASON_") for name in ALL_REASONS}


def test_every_reason_has_an_exception_of_its_own() -> None:
    classes = [kind for _, kind in error_table.REASONS.values()]
    assert len(set(classes)) == len(classes)


@pytest.mark.parametrize("name", ALL_REASONS)
def test_a_reason_has_the_code_of_the_contract_and_belongs_to_the_family_of_that_code(name: str) -> None:
    code, kind = error_table.REASONS[name.removeprefix("ERROR_REASON_")]
    number = errors_pb2.ErrorReason.Value(name)
    expected = [of_range for numbers, of_range in CODES_IN_CONTRACT.items() if number in numbers]
    assert expected in ([code], [])
    assert issubclass(kind, error_table.CODES[code])


@pytest.mark.parametrize("name", ALL_REASONS)
def test_an_error_in_a_frame_and_one_in_a_trailer_become_the_same_exception(name: str) -> None:
    reason = name.removeprefix("ERROR_REASON_")
    code = error_table.REASONS[reason][0]
    message = errors_pb2.Error(code=code.value[0], reason=errors_pb2.ErrorReason.Value(name), message="x")
    framed = error_table.from_message(message)
    unary = error_table.from_rpc_error(make_rpc_error(make_trailer(reason)))
    assert type(framed) is type(unary)
    assert framed.reason == unary.reason == reason
    assert "\n" not in str(framed)


def test_a_trailer_brings_its_data_along() -> None:
    trailer = make_trailer("PRECONDITION_FAILED", version="3", revision="17", executed="no")
    error = error_table.from_rpc_error(make_rpc_error(trailer))
    assert isinstance(error, ecumene.PreconditionFailedError)
    assert (error.version, error.revision, error.executed) == (3, 17, ecumene.Executed.NO)
    assert str(error) == "said the server"
    assert error.retry_delay_s == 1.5
    assert error.details.violations == (("key", "too long"),)


@pytest.mark.parametrize(
    "trailer",
    [
        grpc.aio.Metadata(),
        grpc.aio.Metadata((error_table.STATUS_TRAILER, b"\xff\xff\xff")),
        make_trailer("PRECONDITION_FAILED", domain="someone.else"),
    ],
    ids=["none", "broken", "foreign"],
)
def test_without_a_trailer_of_ours_the_code_decides(trailer: grpc.aio.Metadata) -> None:
    error = error_table.from_rpc_error(make_rpc_error(trailer))
    assert type(error) is ecumene.AbortedError
    assert str(error) == "ABORTED: bare"


def test_a_reason_newer_than_this_client_falls_back_to_its_code() -> None:
    message = errors_pb2.Error(code=5, message="new", metadata={"path": "/a"})
    message.reason = 9999  # type: ignore[assignment]
    error = error_table.from_message(message)
    assert type(error) is ecumene.NotFoundError
    assert error.path == "/a"


def test_every_exception_is_a_name_of_the_package() -> None:
    classes = {
        name
        for module in (errors, reasons, space_reasons, timeline_reasons)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, ecumene.EcumeneError)
    }
    assert classes <= set(dir(ecumene))
    for name in classes:
        assert name in (errors.__doc__ or ""), f"{name} is missing in the tree"


def test_an_error_without_words_builds_its_own_line() -> None:
    assert str(ecumene.LimitExceededError.of("frame_ops_max", 5, 7)) == "7 exceeds frame_ops_max = 5"
    assert str(error_table.from_message(errors_pb2.Error(code=14, reason=140))) == "draining"  # type: ignore[arg-type]
    assert str(ecumene.GateClosedError()) == "GateClosedError"

"""Errors on the wire: total, the same as the contract says, and small."""

import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from env_api.v1 import errors_pb2
from google.rpc import error_details_pb2, status_pb2

from env_server.model.errors import (
    DeadlineExceeded,
    Executed,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    Reason,
    WorldError,
)
from env_server.rpc.encode.errors import CODE_OF, DETAILS_BYTES_MAX, encode_error, encode_status

PROTO = Path(__file__).resolve().parents[5] / "protos/env_api/v1/errors.proto"
PREFIX = "ERROR_REASON_"


def read_codes_of_contract() -> dict[str, str]:
    """Reason to gRPC code, as the comments of the contract have it."""
    codes: dict[str, str] = {}
    current = ""
    for line in PROTO.read_text(encoding="utf-8").splitlines():
        comment = re.match(r"\s*// ([A-Z_]+)(, [A-Z_]+)?[:.]", line)
        if comment and comment[1] in grpc.StatusCode.__members__:
            current = comment[1]
        elif comment and comment[2]:
            current = ""
        reason = re.match(rf"\s*{PREFIX}([A-Z_]+) = \d+;", line)
        if reason and reason[1] != "UNSPECIFIED":
            codes[reason[1]] = reason[1] if reason[1] in ("UNAUTHENTICATED", "PERMISSION_DENIED") else current
    return codes


def test_every_reason_has_a_code() -> None:
    assert set(CODE_OF) == set(Reason)


def test_reasons_have_the_numbers_of_the_contract() -> None:
    contract = {name.removeprefix(PREFIX): number for name, number in errors_pb2.ErrorReason.items() if number}
    assert {reason.name: reason.value for reason in Reason} == contract


def test_codes_are_those_in_the_contracts_comments() -> None:
    assert {reason.name: code.name for reason, code in CODE_OF.items()} == read_codes_of_contract()


def test_executed_has_the_numbers_of_the_contract() -> None:
    contract = {name.removeprefix("EXECUTED_"): number for name, number in errors_pb2.Executed.items()}
    assert {executed.name: executed.value for executed in Executed} == contract


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_every_reason_has_both_forms(reason: Reason) -> None:
    error = WorldError(reason, "a line", metadata={"a": "b"}, retry_delay_ms=50)
    message = encode_error(error)
    assert (message.code, message.reason, message.message) == (CODE_OF[reason].value[0], reason, "a line")
    status = status_pb2.Status.FromString(encode_status(error))
    assert (status.code, status.message) == (CODE_OF[reason].value[0], "a line")
    info = unpack(status, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain, info.metadata["a"]) == (reason.name, "ecumene", "b")
    assert unpack(status, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() == 50


def test_a_huge_error_fits_and_counts_what_it_leaves_out() -> None:
    violations = tuple((f"field{number}", "ä" * 500) for number in range(100))
    metadata = {f"key{number}": "ö" * 1000 for number in range(50)}
    error = WorldError(Reason.INVALID_FIELD, "ü" * 5000, metadata=metadata, violations=violations)
    message = encode_error(error)
    assert message.ByteSize() <= DETAILS_BYTES_MAX
    assert len(message.violations) > 0
    assert len(message.violations) + message.violations_omitted == 100
    encoded = encode_status(error)
    assert len(encoded) <= DETAILS_BYTES_MAX
    status = status_pb2.Status.FromString(encoded)
    shown = len(unpack(status, error_details_pb2.BadRequest).field_violations)
    omitted = int(unpack(status, error_details_pb2.ErrorInfo).metadata["violations_omitted"])
    assert shown > 0
    assert shown + omitted == 100


def test_details_fit_the_kind_of_error() -> None:
    missing = status_pb2.Status.FromString(encode_status(NotFound(Reason.ENTRY_NOT_FOUND, path="/a", key="k")))
    resource = unpack(missing, error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("entry", "/a k")
    bad = status_pb2.Status.FromString(encode_status(InvalidRequest(Reason.INVALID_KEY, "key", "is bad")))
    violation = unpack(bad, error_details_pb2.BadRequest).field_violations[0]
    assert (violation.field, violation.description) == ("key", "is bad")
    limit = status_pb2.Status.FromString(encode_status(LimitExceeded("frame_ops_max", 4, 5)))
    assert dict(unpack(limit, error_details_pb2.ErrorInfo).metadata) == {
        "limit": "frame_ops_max",
        "max": "4",
        "actual": "5",
        "executed": "no",
    }


def test_whether_an_op_was_executed_is_said() -> None:
    assert encode_error(DeadlineExceeded("late", Executed.UNKNOWN)).executed == errors_pb2.EXECUTED_UNKNOWN
    assert encode_error(InternalError("i1")).executed == errors_pb2.EXECUTED_UNKNOWN
    assert encode_error(LimitExceeded("x", 1, 2)).executed == errors_pb2.EXECUTED_NO


def unpack(status: status_pb2.Status, kind: Any) -> Any:
    """The detail of a kind; fails when there is none."""
    for detail in status.details:
        if detail.Is(kind.DESCRIPTOR):
            message = kind()
            detail.Unpack(message)
            return message
    raise AssertionError(f"no {kind.__name__} in {status}")

"""One reason, one code, one class: the contract, the node and the client agree."""

from __future__ import annotations

import grpc
import pytest
from agent_api.v1 import errors_pb2
from ecumene.client.runtime_errors import RUNTIME_REASONS
from google.rpc import status_pb2

from agent_runtime.model.refusals import NodeError, Refusal
from agent_runtime.rpc.errors import CODE_OF, encode_status

PREFIX = "RUNTIME_ERROR_REASON_"


def test_reasons_are_those_of_the_contract() -> None:
    contract = {name.removeprefix(PREFIX): number for name, number in errors_pb2.RuntimeErrorReason.items() if number}
    assert {reason.name: reason.value for reason in Refusal} == contract
    assert RUNTIME_REASONS.keys() == contract.keys()


@pytest.mark.parametrize("reason", list(Refusal))
def test_codes_are_the_same_on_both_sides(reason: Refusal) -> None:
    assert CODE_OF[reason] is RUNTIME_REASONS[reason.name][0]


def test_a_status_stays_small_whatever_it_tells() -> None:
    error = NodeError(Refusal.RUN_NOT_FOUND, "x" * 10_000, retry_delay_ms=5, **{f"k{n}": "y" * 500 for n in range(50)})
    data = encode_status(error)
    assert len(data) < 2048
    assert status_pb2.Status.FromString(data).code == grpc.StatusCode.NOT_FOUND.value[0]

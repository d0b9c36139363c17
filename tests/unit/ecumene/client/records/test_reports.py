"""A report is an answer unless it is a document that only tells how a turn ended."""

from __future__ import annotations

import pytest
from ecumene.client.model import Value
from ecumene.client.records import TurnStatus, read_report


@pytest.mark.parametrize("status", TurnStatus)
def test_a_status_alone_is_no_answer(status: TurnStatus) -> None:
    assert read_report({"status": status.value}) == (status, False)


@pytest.mark.parametrize(
    "answer",
    [None, 7, "timeout", {}, {"status": "sunny"}, {"status": 3}, {"status": "timeout", "guess": 1}, ["timeout"]],
)
def test_everything_else_is_an_answer(answer: Value) -> None:
    assert read_report(answer) == (TurnStatus.OK, True)

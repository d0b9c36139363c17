"""What became of the ops of a block, op by op, also when some of them came later than the others."""

from __future__ import annotations

from ecumene import FrameResult, RateLimitedError, Written
from env_api.v1 import operations_pb2, session_pb2

from agent_runtime.actions.settlement import settle_block


def test_an_op_that_came_later_and_lies_as_if_all_had_come_at_once_hides_no_failure() -> None:
    """The last op's revision is where it would be if the one in between had been done."""
    refused = [operations_pb2.OpOutcome(index=index) for index in (1, 2)]
    for outcome in refused:
        outcome.error.code, outcome.error.reason = 8, 122  # type: ignore[assignment]
    answer = session_pb2.FrameAnswer(count=3, base_revision=10, without_revision=[1, 2], outcomes=refused)
    settled = settle_block(FrameResult([answer]).complete({2: Written(13)}))
    assert [settled.outcome(index).revision for index in (0, 2)] == [11, 13]
    assert isinstance(settled.outcome(1).error, RateLimitedError)


def test_a_block_that_was_done_at_once_is_read_in_one_go() -> None:
    settled = settle_block(FrameResult([session_pb2.FrameAnswer(count=3, base_revision=10)]))
    assert [settled.outcome(index).revision for index in range(3)] == [11, 12, 13]
    assert not settled.others

"""What the ops of a frame came to, read from answers in every form that the contract allows."""

from __future__ import annotations

import ecumene
import pytest
from ecumene import FrameResult, Written
from env_api.v1 import operations_pb2, session_pb2


def fail(index: int) -> operations_pb2.OpOutcome:
    outcome = operations_pb2.OpOutcome(index=index)
    outcome.error.code, outcome.error.reason = 5, 22  # type: ignore[assignment]
    return outcome


def test_an_all_done_frame_gives_each_op_the_revision_of_its_rank() -> None:
    result = FrameResult(
        [session_pb2.FrameAnswer(seq=3, count=4, base_revision=10, versions=[1, 2, 3, 4], revision=20)]
    )
    assert (result.seq, result.count, result.ok_count, result.failures, result.revision) == (3, 4, 4, [], 20)
    assert [result.revision_of(index) for index in range(4)] == [11, 12, 13, 14]
    assert result.outcome_of(2) == Written(revision=13, version=3)
    assert result.raise_failure() is result


def test_ops_without_a_revision_and_waiting_ops_do_not_count_in_the_rank() -> None:
    first = session_pb2.FrameAnswer(count=5, base_revision=10, without_revision=[1], pending=[3], outcomes=[fail(1)])
    late = session_pb2.FrameAnswer(count=5, part=1)
    late.outcomes.add(index=3).written.CopyFrom(operations_pb2.Written(revision=30, version=2, changed=True))
    result = FrameResult([first, late], first_group=1)
    assert [result.revision_of(index) for index in range(5)] == [11, 0, 12, 30, 13]
    assert result.ok_count == 4
    assert [(index, type(error)) for index, error in result.failures] == [(1, ecumene.EntryNotFoundError)]
    assert result.outcome_of(3) == Written(revision=30, version=2)
    with pytest.raises(ecumene.EntryNotFoundError):
        result.outcome_of(1)
    with pytest.raises(ecumene.EntryNotFoundError):
        result.raise_failure()


def test_a_long_answer_is_read_over_all_its_parts() -> None:
    first = session_pb2.FrameAnswer(count=3, base_revision=5, without_revision=[0, 2], outcomes=[fail(0)], more=True)
    rest = session_pb2.FrameAnswer(count=3, outcomes=[fail(2)])
    result = FrameResult([first, rest], first_group=2)
    assert [index for index, _ in result.failures] == [0, 2]
    assert [result.revision_of(index) for index in range(3)] == [0, 6, 0]


def test_a_frame_refused_as_a_whole_is_the_failure_of_each_op() -> None:
    result = FrameResult([session_pb2.FrameAnswer(count=3, outcomes=[fail(3)])])
    assert result.ok_count == 0
    assert [index for index, _ in result.failures] == [0, 1, 2]
    assert isinstance(result.refusal, ecumene.EntryNotFoundError)
    assert [result.revision_of(index) for index in range(3)] == [0, 0, 0]
    with pytest.raises(ecumene.EntryNotFoundError):
        result.outcome_of(1)


def test_versions_of_ops_that_waited_are_those_of_the_later_part() -> None:
    first = session_pb2.FrameAnswer(count=2, versions=[4, 0], pending=[1])
    late = session_pb2.FrameAnswer(count=2, part=1, versions=[0, 9])
    assert FrameResult([first, late]).versions == [4, 9]

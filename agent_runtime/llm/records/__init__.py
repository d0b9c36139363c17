"""Requests and answers as they are kept: their text and hash, recorded runs that answer again, and a cache."""

from agent_runtime.llm.records.bodies import describe_request, find_differences, hash_request
from agent_runtime.llm.records.recorded_calls import RecordedCall, RecordedCalls, RecordedCallsError

__all__ = [
    "RecordedCall",
    "RecordedCalls",
    "RecordedCallsError",
    "describe_request",
    "find_differences",
    "hash_request",
]

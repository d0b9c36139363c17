"""Answers: how their shape is asked for, how they are read and repaired, and whether they contradict themselves."""

from agent_runtime.llm.answers.dialogue import Dialogue, find_first_request
from agent_runtime.llm.answers.modes import LADDER, ModeMemory
from agent_runtime.llm.answers.reading import read_completion, read_object, strip_thinking
from agent_runtime.llm.answers.shapes import answer_schema, shape_messages

__all__ = [
    "LADDER",
    "Dialogue",
    "ModeMemory",
    "answer_schema",
    "find_first_request",
    "read_completion",
    "read_object",
    "shape_messages",
    "strip_thinking",
]

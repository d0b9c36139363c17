"""Writes turns, actions and model calls to part files while the run goes.

Readable after a crash: a part file appears whole, and at most a few seconds after its first row.
"""

from agent_runtime.recording.buffer import TableBuffer
from agent_runtime.recording.errors import (
    BatchShapeError,
    RecordingError,
    RecordingFailedError,
    RecordingFullError,
    SourceInUseError,
)
from agent_runtime.recording.limits import RecordingLimits
from agent_runtime.recording.recorder import ClosedPart, Recorder, RecordingStatistics

__all__ = [
    "BatchShapeError",
    "ClosedPart",
    "Recorder",
    "RecordingError",
    "RecordingFailedError",
    "RecordingFullError",
    "RecordingLimits",
    "RecordingStatistics",
    "SourceInUseError",
    "TableBuffer",
]

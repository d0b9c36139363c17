"""Reading what runs left: tables without doubles, and which runs a sweep is of."""

from ecumene.sim.recordings.sweep_file import SWEEP_NAME, Sweep, SweepRun, is_sweep, read_sweep
from ecumene.sim.recordings.tables import Recording, RecordingError, open_recording, quote

__all__ = [
    "SWEEP_NAME",
    "Recording",
    "RecordingError",
    "Sweep",
    "SweepRun",
    "is_sweep",
    "open_recording",
    "quote",
    "read_sweep",
]

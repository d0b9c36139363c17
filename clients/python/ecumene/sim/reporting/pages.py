"""The page of a directory, be it that of a run or of a sweep."""

from __future__ import annotations

from pathlib import Path

REPORT_NAME = "report.html"


def write_report(directory: Path, path: Path) -> None:
    """Write one self-contained HTML page; nothing else is changed.

    Raises RecordingError, ManifestError, OSError.
    """
    # A page needs templates and queries, which a run's start need not wait for.
    from ecumene.sim.recordings import is_sweep
    from ecumene.sim.reporting.run_page import write_run_page

    if is_sweep(directory):
        from ecumene.sim.reporting.sweep_page import write_sweep_page

        write_sweep_page(directory, path)
    else:
        write_run_page(directory, path)

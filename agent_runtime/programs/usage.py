"""What a process has cost: CPU seconds, and memory of its own."""

from __future__ import annotations

import os
import resource
from pathlib import Path

KIB = 1024


def measure_usage() -> dict[str, float | int]:
    """CPU seconds (user and system), memory of its own now and at its highest, in bytes.

    `rss_anon_bytes` leaves mapped files out; `rss_peak_bytes` counts them.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "pid": os.getpid(),
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "rss_anon_bytes": read_rss_anon(),
        "rss_peak_bytes": used.ru_maxrss * KIB,
    }


def read_rss_anon(pid: int | str = "self") -> int:
    """Anonymous memory of a process, in bytes; 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith("RssAnon:")), 0)

"""The machine that a benchmark ran on: what explains its figures, and nothing that says whose it is."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SHOWN_PACKAGES = ("grpcio", "protobuf", "lmdb", "uvloop")


def describe_machine(now: datetime | None = None) -> dict[str, Any]:
    """Processor, memory, load, and versions of what the path consists of."""
    return {
        "cpu": read_cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "load_1m": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "python": platform.python_version(),
        "loop": "uvloop" if find_version("uvloop") else "asyncio",
        **{name: find_version(name) for name in ("ecumene", *SHOWN_PACKAGES)},
        "date": (now or datetime.now(UTC)).isoformat(timespec="seconds"),
    }


def read_cpu_model() -> str:
    """The processor as the kernel calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def find_version(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None

"""A service to start: planted as an installed distribution, in this process and in those it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SERVICE = """
import json, os, signal, subprocess, sys, time


def main(arguments):
    what = arguments[0]
    if what == "fail":
        print("reading the directory", file=sys.stderr)
        print("the directory is in use by process 7", file=sys.stderr)
        return 74
    if what == "crash":
        raise ValueError("no such thing")
    if what == "hang":
        print("still loading", file=sys.stderr, flush=True)
        time.sleep(600)
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if what == "family":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        child = None
    if what == "polite":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("not yet")
    ready = {"ready": True, "pid": os.getpid(), "arguments": arguments, "child": child and child.pid}
    print(json.dumps(ready), flush=True)
    if what == "end":
        print("the disk is full", file=sys.stderr)
        return 3
    if what == "talk":
        for _ in range(10_000):
            print("x" * 100, flush=True)
        open(arguments[1], "w").write("said it all")
    while True:
        time.sleep(600)
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on every path to import from, with the service `planted`."""
    place = tmp_path / "site"
    information = place / "planted-1.dist-info"
    information.mkdir(parents=True)
    (place / "planted_service.py").write_text(SERVICE, encoding="utf-8")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(
        "[ecumene.services]\nplanted = planted_service:main\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH", "")])))
    return place

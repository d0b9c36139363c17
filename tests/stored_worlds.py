"""Stored worlds of earlier formats, unpacked for a test, with what they told when they were made."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from env_server.storage import layout

FIXTURES = Path(__file__).resolve().parent / "fixtures"
FORMATS = {1: ("whole", "trimmed"), 2: ("whole",), 3: ("whole",)}
"""The worlds that there are of each earlier format."""


def unpack_world(storage_format: int, name: str, directory: Path) -> Path:
    """Puts the world's data file into a new directory of its name; returns that."""
    world = directory / name
    world.mkdir(parents=True)
    packed = (FIXTURES / f"storage_{storage_format}" / f"{name}.mdb.xz").read_bytes()
    (world / layout.DATA_FILE).write_bytes(lzma.decompress(packed))
    return world


def told_then(storage_format: int, name: str) -> dict[str, Any]:
    """What `told_world.tell_world` told of it, with the code that wrote it."""
    packed = (FIXTURES / f"storage_{storage_format}" / f"{name}.json.xz").read_bytes()
    told: dict[str, Any] = json.loads(lzma.decompress(packed))
    return told

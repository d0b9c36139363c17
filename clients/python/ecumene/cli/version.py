"""`ecumene version`: what is installed, for bug reports and for scripts."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import Annotated, Any

import typer

SHOWN_PACKAGES = (
    "grpcio",
    "protobuf",
    "lmdb",
    "aiohttp",
    "pyarrow",
    "pydantic",
    "uvloop",
    "xllamacpp",
    "vllm",
)


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions of Ecumene and what it runs on."""
    found = collect_versions()
    if as_json:
        print(json.dumps(found))
        return
    print(f"ecumene {found['ecumene']}")
    print(f"python {found['python']} on {found['platform']}")
    for name, installed in found["packages"].items():
        print(f"{name} {installed or 'not installed'}")


def collect_versions() -> dict[str, Any]:
    """Versions read from installed metadata; nothing is imported. A missing package is None."""
    return {
        "ecumene": find_version("ecumene"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: find_version(name) for name in SHOWN_PACKAGES},
    }


def find_version(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None

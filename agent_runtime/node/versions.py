"""What a node runs on."""

from __future__ import annotations

import importlib.metadata
import platform

PACKAGES = ("ecumene", "grpcio", "protobuf", "pyarrow", "numpy")


def find_versions() -> dict[str, str]:
    """Versions of Ecumene and of what it runs on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found

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
    server: Annotated[
        str, typer.Option("--server", help="Show a server's instead, with its bounds.", metavar="ADDRESS")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions of Ecumene and what it runs on, or those of a server, what it promises and its bounds."""
    if server:
        _show_server(server, as_json)
        return
    found = collect_versions()
    if as_json:
        print(json.dumps(found))
        return
    print(f"ecumene {found['ecumene']}")
    print(f"python {found['python']} on {found['platform']}")
    for name, installed in found["packages"].items():
        print(f"{name} {installed or 'not installed'}")


def _show_server(server: str, as_json: bool) -> None:
    # Only now: `ecumene version` has to work where something is broken.
    from ecumene.cli.connecting import run_with_server
    from ecumene.cli.tables import print_json, print_table, to_document
    from ecumene.client.worlds import Worlds

    found = run_with_server(server, Worlds.server_info)
    if as_json:
        print_json(to_document(found))
        return
    print(f"ecumene {found.version} at {server}, storage format {found.storage_format}")
    ahead = f", answers may come {found.durability_ahead_ms} ms before that" if found.durability_ahead_ms else ""
    print(f"durability: {found.durability}{ahead}")
    print(f"worlds: {found.worlds}, of which {found.worlds_open} are open")
    age_s = found.request_id_age_ms_max / 1000
    print(f"request ids are remembered for {age_s:,.0f} s, at most {found.request_ids_max:,} in a world")
    print_table(("limit", "max"), found.limits.items())


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

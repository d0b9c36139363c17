"""Launch descriptions in files, as nodes take them: agents are read from the files that they name, and sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ecumene.launch.errors import LaunchError
from ecumene.launch.node_runs import POPULATION_BYTES_MAX, GroupAgents

MODEL_PATHS = ("api_key_file", "cache", "replay_from")


def read_launch(path: Path) -> tuple[dict[str, Any], dict[str, GroupAgents]]:
    """The description in a JSON file, and the agents of its groups; relative paths count from the file.

    Where it records to, every node writes: a folder that all of them see, below the `--records` of each. Agents that
    take more than 64 MiB in all are left where they are: every node has to see them there.

    Raises:
        LaunchError: the description, or a file that it names, cannot be read.
        ModuleNotFoundError: pyarrow is not installed.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        groups = [dict(group) for group in document["groups"]]
        files = {str(group["name"]): path.resolve().parent / group["agents"] for group in groups}
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else f"no launch description: {error}"
        raise LaunchError(f"{path}: {problem}") from error
    stays = sum(_measure(file) for file in files.values()) > POPULATION_BYTES_MAX
    agents = {}
    for group in groups:
        file = files[str(group["name"])]
        rows, stream = _read_agents(file, group.pop("rows", None))
        group["agents"] = str(file) if stays else ""
        agents[str(group["name"])] = GroupAgents(rows, b"" if stays else stream)
    return {**_resolve_paths(document, path.resolve().parent), "groups": groups}, agents


def _resolve_paths(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The description with paths that count from the folder; what is none is left for the node to refuse."""
    if isinstance(document.get("recording"), str):
        document = {**document, "recording": str(folder / document["recording"])}
    models = document.get("models")
    if isinstance(models, dict):
        document = {**document, "models": {name: _resolve_model(model, folder) for name, model in models.items()}}
    return document


def _resolve_model(model: Any, folder: Path) -> Any:
    if not isinstance(model, dict):
        return model
    paths = {name: str(folder / model[name]) for name in MODEL_PATHS if isinstance(model.get(name), str)}
    endpoints = model.get("endpoints")
    if isinstance(endpoints, list):
        return {**model, **paths, "endpoints": [_resolve_model(endpoint, folder) for endpoint in endpoints]}
    return {**model, **paths}


def _measure(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise LaunchError(f"{file}: {error.strerror}") from error


def _read_agents(file: Path, rows: Any) -> tuple[int, bytes]:
    """How many agents a file holds, and an Arrow IPC stream of them."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except (OSError, pa.ArrowException) as error:
        raise LaunchError(f"{file}: not an Arrow IPC file that can be read") from error
    if rows is not None:
        table = table.slice(rows[0], rows[1] - rows[0])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return len(table), sink.getvalue().to_pybytes()

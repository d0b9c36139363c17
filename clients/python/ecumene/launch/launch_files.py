"""Launch descriptions in files, as nodes take them: agents are read from the files that they name, and sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ecumene.launch.errors import LaunchFileError
from ecumene.launch.node_runs import POPULATION_BYTES_MAX, GroupAgents

MODEL_PATHS = ("api_key_file", "cache", "replay_from")


def read_launch(path: Path) -> tuple[dict[str, Any], dict[str, GroupAgents]]:
    """The description in a JSON file, and the agents of its groups; relative paths count from the file.

    Where it records to, every node writes: a folder that all of them see, below the `--records` of each. Agents that
    take more than 64 MiB in all are left where they are: every node has to see them there.

    Raises:
        LaunchFileError: the description, or a file that it names, cannot be read.
        ModuleNotFoundError: pyarrow is not installed.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()  # as it is sent
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else f"no launch description: {error}"
        raise LaunchFileError(f"{path}: {problem}") from error
    if problem := find_problem(document):
        raise LaunchFileError(f"{path}: no launch description: {problem}")
    groups = [dict(group) for group in document["groups"]]
    files = {str(group["name"]): path.resolve().parent / group["agents"] for group in groups}
    stays = sum(_measure(file) for file in files.values()) > POPULATION_BYTES_MAX
    agents = {}
    for group in groups:
        file = files[str(group["name"])]
        rows, stream = _read_agents(file, group.pop("rows", None))
        group["agents"] = str(file) if stays else ""
        agents[str(group["name"])] = GroupAgents(rows, b"" if stays else stream)
    return {**_resolve_paths(document, path.resolve().parent), "groups": groups}, agents


def find_problem(document: Any) -> str:
    """What of a description keeps its groups from being placed, with its place; "" if nothing. Nodes judge the rest."""
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, list):
        return "groups: is no list"
    for number, group in enumerate(groups):
        if not isinstance(group, dict):
            return f"groups.{number}: is no object"
        for name, demand in _DEMANDS.items():
            is_needed = name in ("name", "agents")
            if not demand.holds(group.get(name)) and (is_needed or group.get(name) is not None):
                return f"groups.{number}.{name}: is no {demand.what}"
    return ""


class _Demand(NamedTuple):
    what: str
    holds: Callable[[Any], bool]


def _is_span(rows: Any) -> bool:
    return isinstance(rows, list) and [type(row) for row in rows] == [int, int] and 0 <= rows[0] <= rows[1] < 2**62


_DEMANDS = {
    "name": _Demand("text", lambda name: isinstance(name, str)),
    "agents": _Demand("path", lambda path: isinstance(path, str) and "\0" not in path),
    "rows": _Demand("pair of the first row and the one behind the last", _is_span),
    "parts": _Demand("number of parts", lambda parts: type(parts) is int and parts > 0),
    "node_labels": _Demand("object of labels", lambda labels: isinstance(labels, dict)),
}


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
        raise LaunchFileError(f"{file}: {error.strerror}") from error


def _read_agents(file: Path, rows: Any) -> tuple[int, bytes]:
    """How many agents a file holds, and an Arrow IPC stream of them."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except (OSError, pa.ArrowException) as error:
        raise LaunchFileError(f"{file}: not an Arrow IPC file that can be read") from error
    if rows is not None:
        table = table.slice(rows[0], rows[1] - rows[0])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return len(table), sink.getvalue().to_pybytes()

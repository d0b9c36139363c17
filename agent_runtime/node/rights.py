"""What a launch that comes over the wire, or is taken over, may use of its node: what its operator has allowed.

    api_key_env, api_key_file     only those that `--secret` names: they are sent to any endpoint that it names
    recording, cache              written, and so only below the folder that `--records` names
    replay_from                   read, and below the same folder

A launch of the operator's own, by `--spec`, may use what he may.
"""

from __future__ import annotations

import os
from pathlib import Path

from agent_runtime.llm.settings import EndpointSettings, ModelSettings
from agent_runtime.model.errors import LaunchError
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import Launch


def confine(launch: Launch, settings: NodeSettings) -> Launch:
    """The launch with its relative paths counted from the node's folder of records.

    Raises:
        LaunchError: it wants what it may not have on this node; the place is told, and nothing of the node.
    """
    models = {}
    for name, model in launch.models.items():
        where = f"models.{name}"
        _check_secrets(model, where, settings)
        for number, endpoint in enumerate(model.endpoints):
            _check_secrets(endpoint, f"{where}.endpoints[{number}]", settings)
        paths = {kind: getattr(model, kind) for kind in ("cache", "replay_from")}
        below = {kind: _find_below(path, f"{where}.{kind}", settings) for kind, path in paths.items()}
        models[name] = model.model_copy(update=below)
    recording = _find_below(launch.recording, "recording", settings)
    return launch.model_copy(update={"recording": recording, "models": models})


def _check_secrets(model: ModelSettings | EndpointSettings, where: str, settings: NodeSettings) -> None:
    named = {"api_key_env": model.api_key_env, "api_key_file": model.api_key_file}
    for kind, secret in named.items():
        if secret is not None and str(secret) not in settings.secrets:
            raise LaunchError(
                f"{where}.{kind}", "is no secret that launches may use here: the operator names those, --secret"
            )


def _find_below(path: Path | None, where: str, settings: NodeSettings) -> Path | None:
    """The path below the node's folder of records. Raises LaunchError."""
    if path is None:
        return None
    if settings.records is None:
        raise LaunchError(where, f"this node keeps no files of launches: start it with --records, above {path}")
    folder = settings.records.resolve()
    # Links are followed first: one that leads out of the folder is no way out of it.
    found = (folder / path).resolve()
    if os.path.commonpath((folder, found)) != str(folder):
        raise LaunchError(where, "must lie in the folder that this node keeps for files of launches (--records)")
    return found

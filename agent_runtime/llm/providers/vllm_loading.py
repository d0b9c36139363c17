"""Loading an engine of vllm's: in a thread, since it takes minutes and asks nobody else's leave.

EngineLoad.wait ──► thread: the engine's GPUs in the environment ─► AsyncLLM, whose process is ours
      └─ given up: what comes of the thread is ended in it
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ecumene.lifeline import OWNER

from agent_runtime.llm.errors import ModelSetupError

GPUS = "CUDA_VISIBLE_DEVICES"
# What vllm reads when it is imported.
HABITS = {
    # A fork would take along the locks that this process's other threads hold.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # A worker's standard output is where it answers its node.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    # Who runs a simulation is not asked whether its machine is reported to somebody.
    "VLLM_NO_USAGE_STATS": "1",
}
# The environment is the process's: two that start at once would see each other's GPUs.
_environment = threading.Lock()


class EngineLoad:
    """One engine on its way."""

    def __init__(self, model: str, arguments: Mapping[str, Any], gpus: str | None) -> None:
        self._model = model
        self._arguments = arguments
        self._gpus = gpus
        self._lock = threading.Lock()
        self._engine: Any = None
        self._given_up = threading.Event()

    async def wait(self) -> Any:
        """The engine, an AsyncLLM, once it is ready. Raises what vllm raises. Cancelled, it leaves no engine behind."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._load)
        except asyncio.CancelledError:
            # The thread cannot be stopped; whichever of the two is later ends the engine.
            with self._lock:
                self._given_up.set()
                if self._engine is not None:
                    self._engine.shutdown()
            raise

    def _load(self) -> Any:
        with _environment:
            if self._given_up.is_set():
                return None
            with visible_gpus(self._gpus):
                engine = make_engine(self._model, self._arguments)
        with self._lock:
            self._engine = engine
            if self._given_up.is_set():
                engine.shutdown()
        return engine


def make_engine(model: str, arguments: Mapping[str, Any]) -> Any:
    """An AsyncLLM. Blocks until it is ready; its process ends with this one."""
    for name, value in HABITS.items():
        os.environ.setdefault(name, value)
    os.environ[OWNER] = str(os.getpid())
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(AsyncEngineArgs(model=model, **arguments))


def list_gpus(engine: int, gpus: int) -> str | None:
    """The GPUs of an engine, among those that this process may see; None = whatever vllm chooses."""
    if gpus == 0:
        return None
    visible = [name for name in os.environ.get(GPUS, "").split(",") if name]
    wanted = range(engine * gpus, (engine + 1) * gpus)
    if visible and wanted.stop > len(visible):
        raise ModelSetupError(f"engine-{engine}", f"needs GPU {wanted.stop - 1}, {GPUS} names {len(visible)}")
    return ",".join(visible[place] if visible else str(place) for place in wanted)


@contextmanager
def visible_gpus(gpus: str | None) -> Iterator[None]:
    """Lets a process that is started meanwhile see these GPUs only."""
    before = os.environ.get(GPUS)
    if gpus is not None:
        os.environ[GPUS] = gpus
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(GPUS, None)
        else:
            os.environ[GPUS] = before

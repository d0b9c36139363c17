"""The small model that a runtime's provider `local` asks, served for whoever has its key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ecumene.bench.llm_questions import Asked
from ecumene.bench.processes import BenchError, run_child

# Run, never imported: the same program with the same settings as the provider's. It speaks as our own children do.
SERVER_MODULE = "agent_runtime.llm.providers.local_server"
MODEL = "smollm2-135m-instruct"
SLOTS = 16
CONTEXT_TOKENS = 2048
THREADS = 2
LOAD_TIMEOUT_S = 60.0


class ModelAbsentError(BenchError):
    """The packaged model, or the engine that runs it, is not installed."""


@asynccontextmanager
async def serve_packaged_model(
    directory: Path, tokens_max: int, at_a_time: int = SLOTS
) -> AsyncIterator[tuple[Asked, int]]:
    """What to ask, at most `SLOTS` questions at a time, and the server's process id.

    Raises:
        ModelAbsentError: with what is missing and how to install it.
        BenchError: it did not start.
    """
    key_file = directory / "key"
    key = secrets.token_hex(16)
    await asyncio.to_thread(_write_secret, key_file, key)
    async with run_child(SERVER_MODULE, []) as server:
        server.tell(
            {
                "model_path": "",
                "model_name": MODEL,
                "api_key": key,
                "slots": SLOTS,
                "context_tokens": CONTEXT_TOKENS,
                "threads": THREADS,
            }
        )
        told = await server.read(LOAD_TIMEOUT_S)
        if "error" in told:
            raise ModelAbsentError(str(told["error"]))
        base_url = f"{told['address']}/v1"
        yield Asked(base_url, MODEL, str(key_file), tokens_max=tokens_max, at_a_time=at_a_time), server.pid


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")

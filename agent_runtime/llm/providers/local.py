"""A small real model on the CPU: no key, no GPU, nothing to compile.

xllamacpp brings llama.cpp prebuilt; the weights are those of `local_weights`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys

from agent_runtime.llm.errors import ModelSetupError
from agent_runtime.llm.providers.api_key import ApiKey
from agent_runtime.llm.providers.local_server import LocalServerSettings
from agent_runtime.llm.providers.local_weights import find_weights
from agent_runtime.llm.providers.openai import OpenAIProvider
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode

MODEL_NAME = "smollm2-135m-instruct"
SLOTS = 16
CONTEXT_TOKENS = 2048
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0


class LocalProvider:
    """A llama.cpp server on loopback and a client of it. Made by `start`, ended by `aclose`.

    The server is a child process: it ends with this one, however that ends, and if it dies itself,
    calls fail with `ModelUnavailableError`. Give the gateway `in_flight_max` = `slots`.
    """

    def __init__(self, process: asyncio.subprocess.Process, client: OpenAIProvider) -> None:
        self._process = process
        self._client = client

    @classmethod
    async def start(
        cls,
        *,
        slots: int = SLOTS,
        context_tokens: int = CONTEXT_TOKENS,
        threads: int = 2,
    ) -> LocalProvider:
        """Loads the model and returns when it answers.

        `slots` questions are answered in parallel, each with room for `context_tokens` tokens of
        prompt and answer (23 KB of memory a token).

        Raises:
            ModelSetupError: a package is missing, or the server did not start.
        """
        api_key = secrets.token_hex(16)
        settings = LocalServerSettings(str(find_weights()), MODEL_NAME, api_key, slots, context_tokens, threads)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "agent_runtime.llm.providers.local_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            address = await _read_address(process, settings)
        except BaseException:
            await _end_process(process)
            raise
        client = OpenAIProvider(f"{address}/v1", api_key=ApiKey(api_key), connections_max=slots)
        return cls(process, client)

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        return await self._client.complete(request, mode)

    async def aclose(self) -> None:
        await self._client.aclose()
        await _end_process(self._process)


async def _read_address(process: asyncio.subprocess.Process, settings: LocalServerSettings) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            process.stdin.write(settings.to_line())
            await process.stdin.drain()
            line = await process.stdout.readline()
    except TimeoutError:
        raise ModelSetupError("local", f"model server not ready within {START_TIMEOUT_S:g} s") from None
    except ConnectionError:
        line = b""
    if not line.startswith(b"{"):
        raise ModelSetupError("local", "model server ended while loading the model")
    told = json.loads(line)
    if "address" not in told:
        raise ModelSetupError("local", f"model server cannot start: {told['error']}")
    return str(told["address"])


async def _end_process(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

"""vllm's engines in this process. NOT RUN in this project's tests, which know vllm by a stand-in with the same surface.

Written against vllm 0.20: `vllm.v1.engine.async_llm.AsyncLLM`, `AsyncEngineArgs`, `SamplingParams` with
`StructuredOutputsParams`. Each engine has a process of its own for its GPUs; this one tokenizes and waits.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

from agent_runtime.llm.answers import answer_schema, shape_messages
from agent_runtime.llm.errors import ModelEndpointError, ModelSetupError, ModelUnavailableError
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode
from agent_runtime.llm.settings import VllmSettings

START_TIMEOUT_S = 900.0
_GPUS = "CUDA_VISIBLE_DEVICES"
_requests = itertools.count(1)


class VllmEngine:
    """One engine. A call that is cancelled is aborted in the engine.

    An engine that died fails its calls with ModelUnavailableError; the first call after that starts it anew, and
    those that come meanwhile wait for it. Give the gateway's breaker time accordingly.
    """

    def __init__(self, model: str, arguments: Mapping[str, Any], gpus: str | None, name: str) -> None:
        self._model = model
        self._arguments = dict(arguments)
        self._gpus = gpus
        self._name = name
        self._engine: Any = None
        self._tokenizer: Any = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"VllmEngine({self._name})"

    async def start(self) -> None:
        """Loads the model; takes minutes.

        Raises:
            ModelSetupError: it does not load, or not in time.
        """
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        def make() -> Any:
            with visible_gpus(self._gpus):
                return AsyncLLM.from_engine_args(AsyncEngineArgs(model=self._model, **self._arguments))

        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self._engine = make()
                tokenizer = self._engine.get_tokenizer()
                # A coroutine in some versions, the tokenizer itself in others.
                self._tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
        except TimeoutError:
            raise ModelSetupError(self._name, f"engine not ready within {START_TIMEOUT_S:g} s") from None
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            raise ModelSetupError(self._name, f"engine does not start: {type(error).__name__}: {error}") from error

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        if request.tools:
            raise ModelSetupError(self._name, "tools need vllm's own server and its tool parser: use provider openai")
        if self._engine is None or self._engine.errored:
            await self._start_again(request)
        prompt = self._write_prompt(request, mode)
        parameters = self._write_parameters(request, mode)
        number = f"{request.agent_id}-{request.turn}-{request.call}-{next(_requests)}"
        outcome: Any = None
        try:
            # Closed at once when the call is cancelled: that aborts it in the engine.
            async with aclosing(self._engine.generate(prompt, parameters, number)) as outputs:
                async for output in outputs:
                    outcome = output
        except Exception as error:
            raise self._explain(request, error) from error
        if outcome is None or not outcome.outputs:
            raise ModelUnavailableError(request.model, self._name, "engine gave no output")
        answer = outcome.outputs[0]
        return Completion(
            text=answer.text,
            finish_reason=str(answer.finish_reason or "stop"),
            prompt_tokens=len(outcome.prompt_token_ids or ()),
            completion_tokens=len(answer.token_ids),
            model=self._model,
        )

    async def aclose(self) -> None:
        self._is_closed = True
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

    async def _start_again(self, request: ModelRequest) -> None:
        if self._is_closed:
            raise RuntimeError("the provider is closed")
        async with self._starting:
            if self._engine is not None and not self._engine.errored:
                return
            if self._engine is not None:
                self._engine.shutdown()
                self._engine = None
            try:
                await self.start()
            except ModelSetupError as error:
                raise ModelUnavailableError(request.model, self._name, str(error)) from error

    def _explain(self, request: ModelRequest, error: Exception) -> Exception:
        """What an exception of vllm's means; by name, as its module differs between versions."""
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & {"VLLMClientError", "VLLMValidationError", "ValueError"}:
            return ModelEndpointError(request.model, self._name, 400, str(error))
        if names & {"EngineDeadError", "EngineGenerateError"}:
            return ModelUnavailableError(request.model, self._name, f"engine failed ({type(error).__name__})")
        return error

    def _write_prompt(self, request: ModelRequest, mode: SchemaMode) -> Any:
        from vllm.inputs import TokensPrompt

        messages = [_write_message(message) for message in shape_messages(request, mode)]
        tokens = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return TokensPrompt(prompt_token_ids=list(tokens))

    def _write_parameters(self, request: ModelRequest, mode: SchemaMode) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        shape = None
        if request.answer_type is not None and mode is SchemaMode.JSON_SCHEMA:
            shape = StructuredOutputsParams(json=answer_schema(request.answer_type))
        elif mode is SchemaMode.JSON_OBJECT:
            shape = StructuredOutputsParams(json_object=True)
        chosen: dict[str, Any] = {"max_tokens": request.max_tokens, "output_kind": RequestOutputKind.FINAL_ONLY}
        if request.temperature is not None:
            chosen["temperature"] = request.temperature
        if request.seed is not None:
            chosen["seed"] = request.seed
        if shape is not None:
            chosen["structured_outputs"] = shape
        return SamplingParams(**chosen)


async def open_engines(model: str, settings: VllmSettings) -> list[VllmEngine]:
    """Starts all engines of a model, one after the other: each measures the memory that is left.

    Raises:
        ModelSetupError: vllm is not installed, or an engine does not start; those that did are ended.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ModelSetupError(
            model, "provider vllm needs the package vllm: install ecumene[vllm], on a machine with GPUs"
        )
    arguments = dict(settings.arguments)
    if settings.gpus:
        arguments.setdefault("tensor_parallel_size", settings.gpus)
    engines: list[VllmEngine] = []
    try:
        for place in range(settings.engines):
            engine = VllmEngine(model, arguments, list_gpus(place, settings.gpus), f"{model}.engine-{place}")
            await engine.start()
            engines.append(engine)
    except BaseException:
        for engine in engines:
            await engine.aclose()
        raise
    return engines


def list_gpus(engine: int, gpus: int) -> str | None:
    """The GPUs of an engine, among those that this process may see; None = whatever vllm chooses."""
    if gpus == 0:
        return None
    visible = [name for name in os.environ.get(_GPUS, "").split(",") if name]
    wanted = range(engine * gpus, (engine + 1) * gpus)
    if visible and wanted.stop > len(visible):
        raise ModelSetupError(f"engine-{engine}", f"needs GPU {wanted.stop - 1}, {_GPUS} names {len(visible)}")
    return ",".join(visible[place] if visible else str(place) for place in wanted)


@contextmanager
def visible_gpus(gpus: str | None) -> Iterator[None]:
    """Lets a process that is started meanwhile see these GPUs only."""
    before = os.environ.get(_GPUS)
    if gpus is not None:
        os.environ[_GPUS] = gpus
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_GPUS, None)
        else:
            os.environ[_GPUS] = before


def _write_message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        # Chat templates want the arguments as objects.
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        told["tool_call_id"] = message.tool_call_id
    return told

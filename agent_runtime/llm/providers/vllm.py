"""vllm's engines in this process, through `vllm.v1.engine.async_llm.AsyncLLM`.

Each engine has a process of its own for its GPUs; this one tokenizes and waits. docs/models.md says with which builds
and versions it was run.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import itertools
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from agent_runtime.llm.answers import answer_schema, shape_messages
from agent_runtime.llm.errors import ModelEndpointError, ModelSetupError, ModelUnavailableError
from agent_runtime.llm.providers.vllm_loading import EngineLoad, list_gpus
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode
from agent_runtime.llm.settings import ENGINE_START_TIMEOUT_S, VllmSettings

_requests = itertools.count(1)


class VllmEngine:
    """One engine. A call that is cancelled is aborted in the engine.

    An engine that died fails its calls with ModelUnavailableError, and the first call after that starts it anew, beside
    the calls: none that gives up ends the start. Until it is back, calls wait for it if it is `alone`, and fail at once
    if there are others, to which the gateway then turns.
    """

    def __init__(
        self, model: str, arguments: Mapping[str, Any], gpus: str | None, name: str, *, alone: bool = True
    ) -> None:
        self._model = model
        self._arguments = dict(arguments)
        self._gpus = gpus
        self._name = name
        self._alone = alone
        self._engine: Any = None
        self._tokenizer: Any = None
        self._restart: asyncio.Task[ModelSetupError | None] | None = None
        #: Of the calls that wait for the engine as it is now; whoever shuts that down ends them.
        self._calls: set[asyncio.Timeout] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"VllmEngine({self._name})"

    async def start(self) -> None:
        """Loads the model; takes minutes, in which the event loop goes on.

        Raises:
            ModelSetupError: it does not load, or not in time.
        """
        load = EngineLoad(self._model, self._arguments, self._gpus)
        try:
            async with asyncio.timeout(ENGINE_START_TIMEOUT_S):
                engine = await load.wait()
                try:
                    tokenizer = engine.get_tokenizer()
                    # A coroutine in some versions, the tokenizer itself in others.
                    self._tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
                except BaseException:
                    engine.shutdown()
                    raise
        except TimeoutError:
            raise ModelSetupError(self._name, f"engine not ready within {ENGINE_START_TIMEOUT_S:g} s") from None
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            raise ModelSetupError(self._name, f"engine does not start: {type(error).__name__}: {error}") from error
        self._engine = engine

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        if request.tools:
            raise ModelSetupError(self._name, "tools need vllm's own server and its tool parser: use provider openai")
        if self._engine is None or self._engine.errored:
            await self._wait_until_back(request)
        outcome: Any = None
        number = f"{request.agent_id}-{request.turn}-{request.call}-{next(_requests)}"
        call = asyncio.timeout(None)
        try:
            prompt = self._write_prompt(request, mode)
            async with call:
                self._calls.add(call)
                # Closed at once when the call is cancelled: that aborts it in the engine.
                async with aclosing(self._engine.generate(prompt, _write_parameters(request, mode), number)) as outputs:
                    async for output in outputs:
                        outcome = output
        except Exception as error:
            if call.expired():
                raise ModelUnavailableError(request.model, self._name, "engine died") from error
            raise self._explain(request, error) from error
        finally:
            self._calls.discard(call)
        return self._read(request, outcome)

    async def aclose(self) -> None:
        self._is_closed = True
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait({self._restart})
        self._shut_down()

    async def _wait_until_back(self, request: ModelRequest) -> None:
        if self._is_closed:
            raise RuntimeError("the provider is closed")
        restart = self._restart
        if restart is None or restart.done():
            restart = self._restart = asyncio.create_task(self._start_again(), name=f"restart of {self._name}")
        if not self._alone:
            raise ModelUnavailableError(request.model, self._name, "engine died and is being started again")
        await asyncio.wait({restart})
        if restart.cancelled():
            raise RuntimeError("the provider is closed")
        if (failure := restart.result()) is not None:
            raise ModelUnavailableError(request.model, self._name, str(failure)) from failure

    async def _start_again(self) -> ModelSetupError | None:
        """Ends what is left of the engine and starts it; returns why it did not start."""
        self._shut_down()
        try:
            await self.start()
        except ModelSetupError as error:
            return error
        return None

    def _shut_down(self) -> None:
        """Ends the engine, if there is one, and the calls that wait for it.

        vllm tells calls that their engine is dead from a task that its shutdown cancels: whoever finds that out first
        and shuts down at once would leave the others waiting for ever.
        """
        engine, self._engine = self._engine, None
        if engine is None:
            return
        now_s = asyncio.get_running_loop().time()
        for call in self._calls:
            call.reschedule(now_s)
        self._calls = set()
        engine.shutdown()

    def _read(self, request: ModelRequest, outcome: Any) -> Completion:
        if outcome is None or not outcome.outputs:
            raise ModelUnavailableError(request.model, self._name, "engine gave no output")
        answer = outcome.outputs[0]
        reason = str(answer.finish_reason or "stop")
        if reason in ("abort", "error"):
            # By the engine itself: what there is of the answer ends anywhere.
            raise ModelUnavailableError(request.model, self._name, f"engine gave up the answer ({reason})")
        return Completion(
            text=answer.text,
            finish_reason=reason,
            prompt_tokens=len(outcome.prompt_token_ids or ()),
            completion_tokens=len(answer.token_ids),
            model=self._model,
        )

    def _explain(self, request: ModelRequest, error: Exception) -> Exception:
        """What an exception of vllm's means; by name, as its module differs between versions."""
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & {"VLLMClientError", "VLLMValidationError", "ValueError", "TemplateError"}:
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
            gpus, name = list_gpus(place, settings.gpus), f"{model}.engine-{place}"
            engine = VllmEngine(model, arguments, gpus, name, alone=settings.engines == 1)
            await engine.start()
            engines.append(engine)
    except BaseException:
        for engine in engines:
            await engine.aclose()
        raise
    return engines


def _write_parameters(request: ModelRequest, mode: SchemaMode) -> Any:
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

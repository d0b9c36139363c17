"""The provider of vllm's engines, against a stand-in with vllm's surface; `tests/foreign/vllm` runs the real ones."""

from __future__ import annotations

import asyncio
import importlib.machinery
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from ecumene.lifeline import OWNER
from pydantic import BaseModel

from agent_runtime.llm import (
    Gateway,
    Message,
    ModelEndpointError,
    ModelRequest,
    ModelSetupError,
    ModelUnavailableError,
    SchemaMode,
    Tool,
)
from agent_runtime.llm.endpoints import Endpoint
from agent_runtime.llm.providers.vllm import VllmEngine, open_engines
from agent_runtime.llm.providers.vllm_loading import HABITS, list_gpus
from agent_runtime.llm.settings import VllmSettings
from agent_runtime.llm.testing import check_llm_provider


class Guess(BaseModel):
    number: int


REQUEST = ModelRequest("a", 1, 0, "tiny", (Message("system", "Rules."), Message("user", "Pick.")), Guess, seed=7)


class EngineDeadError(Exception):
    """As vllm's."""


class TemplateError(Exception):
    """As jinja2's."""


class StandIn:
    """vllm's AsyncLLM: its methods that the provider uses, and what was asked of it."""

    made: ClassVar[list[StandIn]] = []
    may_load: ClassVar[threading.Event] = threading.Event()

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.errored = False
        self.dies_next = False
        self.finish_reason = "stop"
        self.aborted: list[str] = []
        self.asked: list[tuple[Any, Any, str]] = []
        self.is_shut = False
        self.hold = asyncio.Event()
        self.hold.set()
        StandIn.made.append(self)

    @classmethod
    def from_engine_args(cls, arguments: Any) -> StandIn:
        if arguments.model == "broken":
            raise RuntimeError("no room on the GPU")
        assert cls.may_load.wait(30)
        return cls(arguments)

    async def get_tokenizer(self) -> Any:
        def apply_chat_template(
            messages: Any, *, add_generation_prompt: bool, tokenize: bool, return_dict: bool
        ) -> Any:
            assert add_generation_prompt and tokenize and not return_dict
            if messages[0]["content"] == "no such role":
                raise TemplateError("roles must alternate")
            return [len(message["content"]) for message in messages]

        return SimpleNamespace(apply_chat_template=apply_chat_template)

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str) -> AsyncIterator[Any]:
        self.asked.append((prompt, sampling_params, request_id))
        if sampling_params.max_tokens > 10_000:
            raise ValueError("max_tokens is beyond the context")
        try:
            if self.dies_next:
                self.errored = True
                raise EngineDeadError
            await self.hold.wait()
            await asyncio.sleep(0)
            output = SimpleNamespace(text='{"number": 4}', token_ids=[1, 2, 3], finish_reason=self.finish_reason)
            yield SimpleNamespace(prompt_token_ids=prompt["prompt_token_ids"], outputs=[output])
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(request_id)
            raise

    def shutdown(self) -> None:
        self.is_shut = True


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*HABITS, OWNER):  # an engine that is made sets them for good
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    StandIn.made.clear()
    StandIn.may_load.set()
    modules: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": SimpleNamespace},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.async_llm": {"AsyncLLM": StandIn},
        "vllm.inputs": {"TokensPrompt": dict},
        "vllm.sampling_params": {
            "SamplingParams": SimpleNamespace,
            "StructuredOutputsParams": SimpleNamespace,
            "RequestOutputKind": SimpleNamespace(FINAL_ONLY="final"),
        },
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    yield


async def open_one() -> VllmEngine:
    (engine,) = await open_engines("tiny", VllmSettings())
    return engine


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a thread is waited for
            await asyncio.sleep(0.005)


async def test_it_is_a_provider() -> None:
    await check_llm_provider(open_one, REQUEST)


async def test_what_is_asked_reaches_the_engine() -> None:
    engine = await open_one()
    completion = await engine.complete(REQUEST, SchemaMode.JSON_SCHEMA)
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == ('{"number": 4}', 2, 3)
    _, parameters, number = StandIn.made[0].asked[0]
    assert parameters.structured_outputs.json["required"] == ["number"]
    assert (parameters.seed, parameters.max_tokens, parameters.output_kind) == (7, 256, "final")
    assert not hasattr(parameters, "temperature")
    await engine.complete(REQUEST, SchemaMode.JSON_OBJECT)
    await engine.complete(REQUEST, SchemaMode.PROMPT)
    assert StandIn.made[0].asked[1][1].structured_outputs.json_object is True
    assert not hasattr(StandIn.made[0].asked[2][1], "structured_outputs")
    assert len({asked[2] for asked in StandIn.made[0].asked}) == 3, "ids are unique"
    assert number.startswith("a-1-0-")
    await engine.aclose()
    assert StandIn.made[0].is_shut


async def test_a_cancelled_call_is_aborted_in_the_engine() -> None:
    engine = await open_one()
    StandIn.made[0].hold.clear()
    call = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="call")
    for _ in range(5):
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert StandIn.made[0].aborted == [StandIn.made[0].asked[0][2]]
    await engine.aclose()


async def test_an_engine_that_dies_is_started_anew_once_and_no_question_is_lost() -> None:
    engine = await open_one()
    StandIn.made[0].dies_next = True

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    gateway = Gateway([Endpoint(engine)], sleep=sleep)
    answers = await asyncio.gather(*(gateway.ask(REQUEST) for _ in range(4)))
    assert [answer.value for answer in answers] == [Guess(number=4)] * 4
    assert len(StandIn.made) == 2
    assert StandIn.made[0].is_shut
    await gateway.aclose()


@pytest.mark.parametrize("engines", [1, 2])
async def test_calls_of_an_engine_that_another_call_finds_dead_are_told_too(engines: int) -> None:
    """As with vllm, whose own word to them is lost when the engine is shut down first."""
    engine, *_ = await open_engines("tiny", VllmSettings(engines=engines))
    first = StandIn.made[0]
    first.hold.clear()
    waiting = [asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name=f"{n}") for n in range(3)]
    await until(lambda: len(first.asked) == 3)
    first.errored = True
    late = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="late")
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.wait({late})
    assert all(isinstance(outcome, ModelUnavailableError) for outcome in outcomes), outcomes
    assert len(first.aborted) == 3
    await until(lambda: len(StandIn.made) == engines + 1)
    await engine.aclose()


async def test_closing_ends_the_calls_that_are_out() -> None:
    engine = await open_one()
    StandIn.made[0].hold.clear()
    call = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="out")
    await until(lambda: bool(StandIn.made[0].asked))
    await engine.aclose()
    async with asyncio.timeout(10):
        with pytest.raises(ModelUnavailableError):
            await call


async def test_loading_does_not_hold_up_the_loop_and_a_start_given_up_leaves_no_engine() -> None:
    StandIn.may_load.clear()
    opening = asyncio.create_task(open_one(), name="opening")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not opening.done()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    StandIn.may_load.set()
    await until(lambda: bool(StandIn.made) and StandIn.made[0].is_shut)


async def test_an_engine_that_is_alone_is_waited_for_and_no_call_that_gives_up_ends_its_start() -> None:
    engine = await open_one()
    StandIn.made[0].errored = True
    StandIn.may_load.clear()
    impatient = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="impatient")
    patient = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="patient")
    for _ in range(20):
        await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    StandIn.may_load.set()
    assert (await patient).finish_reason == "stop"
    assert len(StandIn.made) == 2
    await engine.aclose()


async def test_a_dead_engine_among_others_holds_up_no_call_and_comes_back() -> None:
    engines = await open_engines("tiny", VllmSettings(engines=2))
    StandIn.made[0].errored = True
    StandIn.may_load.clear()

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    gateway = Gateway([Endpoint(engine) for engine in engines], sleep=sleep)
    answers = await asyncio.gather(*(gateway.ask(REQUEST) for _ in range(8)))
    assert [answer.value for answer in answers] == [Guess(number=4)] * 8
    assert len(StandIn.made) == 2, "answered while the other was still away"
    StandIn.may_load.set()
    await until(lambda: len(StandIn.made) == 3)
    assert (await engines[0].complete(REQUEST, SchemaMode.JSON_SCHEMA)).finish_reason == "stop"
    await gateway.aclose()
    assert all(made.is_shut for made in StandIn.made)


async def test_closing_ends_a_restart() -> None:
    engine = await open_one()
    StandIn.made[0].errored = True
    StandIn.may_load.clear()
    waiting = asyncio.create_task(engine.complete(REQUEST, SchemaMode.JSON_SCHEMA), name="waiting")
    for _ in range(20):
        await asyncio.sleep(0)
    waiting.cancel()
    await engine.aclose()
    StandIn.may_load.set()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: all(made.is_shut for made in StandIn.made))
    with pytest.raises(RuntimeError, match="closed"):
        await engine.complete(REQUEST, SchemaMode.JSON_SCHEMA)


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_an_answer_that_the_engine_gave_up_is_none(reason: str) -> None:
    engine = await open_one()
    StandIn.made[0].finish_reason = reason
    with pytest.raises(ModelUnavailableError, match=reason):
        await engine.complete(REQUEST, SchemaMode.JSON_SCHEMA)
    await engine.aclose()


async def test_a_conversation_that_the_chat_template_refuses_is_refused() -> None:
    engine = await open_one()
    with pytest.raises(ModelEndpointError, match="must alternate"):
        await engine.complete(ModelRequest("a", 1, 0, "tiny", (Message("user", "no such role"),)), SchemaMode.TEXT)
    await engine.aclose()


async def test_a_request_that_the_engine_refuses_is_not_repeated() -> None:
    engine = await open_one()
    with pytest.raises(ModelEndpointError, match="beyond the context"):
        await engine.complete(ModelRequest("a", 1, 0, "tiny", REQUEST.messages, max_tokens=99_999), SchemaMode.TEXT)
    tool = Tool("look", "Looks.", {"type": "object"})
    with pytest.raises(ModelSetupError, match="use provider openai"):
        await engine.complete(ModelRequest("a", 1, 0, "tiny", REQUEST.messages, tools=(tool,)), SchemaMode.TEXT)
    await engine.aclose()


async def test_engines_get_their_gpus_and_a_failed_start_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    engines = await open_engines("tiny", VllmSettings(engines=2, gpus=2, arguments={"max_model_len": 512}))
    assert [made.gpus for made in StandIn.made] == ["4,5", "6,7"]
    assert [made.arguments.tensor_parallel_size for made in StandIn.made] == [2, 2]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    for engine in engines:
        await engine.aclose()
    with pytest.raises(ModelSetupError, match="needs GPU 5"):
        await open_engines("tiny", VllmSettings(engines=3, gpus=2))
    assert all(made.is_shut for made in StandIn.made)
    with pytest.raises(ModelSetupError, match="no room on the GPU"):
        await open_engines("broken", VllmSettings())


def test_without_a_word_about_gpus_the_first_ones_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert list_gpus(1, 2) == "2,3"
    assert list_gpus(1, 0) is None


async def test_an_engine_that_does_not_come_back_is_unavailable() -> None:
    engine = await open_one()
    StandIn.made[0].errored = True
    engine._model = "broken"
    with pytest.raises(ModelUnavailableError, match="no room on the GPU"):
        await engine.complete(REQUEST, SchemaMode.TEXT)
    await engine.aclose()


async def test_vllm_is_told_to_keep_to_itself_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "0")
    await (await open_one()).aclose()
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr", "stdout is the worker's own"
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "0"


async def test_a_machine_without_vllm_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelSetupError, match=r"install ecumene\[vllm\]"):
        await open_engines("tiny", VllmSettings())

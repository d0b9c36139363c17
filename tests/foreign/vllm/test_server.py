"""The provider `openai` on vllm's own server: what holds of its engines, and a server that dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from agent_runtime.llm import Gateway, ModelUnavailableError, SchemaMode
from agent_runtime.llm.endpoints import BreakerState
from agent_runtime.llm.providers.openai import OpenAIProvider
from agent_runtime.llm.testing import check_llm_provider
from tests.foreign.vllm import answering
from tests.foreign.vllm.answering import LONG_TOKENS, Guess, ask
from tests.foreign.vllm.builds import Build, find_build
from tests.foreign.vllm.model_server import ModelServer
from tests.foreign.vllm.models import TINY

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

PATIENT_S = 900.0
SEQUENCES = 4


@pytest.fixture(scope="module")
def build(missing_toolchain: Callable[[str], NoReturn]) -> Build:
    return find_build(missing_toolchain)


@pytest.fixture(scope="module")
def server(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """A server of the tiny model that computes a few answers at a time."""
    with ModelServer(build, TINY, tmp_path_factory.mktemp("vllm") / "server.log", max_num_seqs=SEQUENCES) as started:
        yield started


@asynccontextmanager
async def asking(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider(server.base_url, connections_max=32)
    try:
        yield provider
    finally:
        await provider.aclose()


async def test_free_text_is_bounded_and_counted(build: Build, server: ModelServer) -> None:
    request = ask(TINY, temperature=1.0, max_tokens=24)
    async with asking(server) as provider:
        expected = answering.count_prompt_tokens(build.model(TINY), request)
        await answering.check_free_text(provider, request, expected)


async def test_shapes_are_kept_in_a_crowd(server: ModelServer) -> None:
    async with asking(server) as provider:
        await answering.check_shapes(provider, TINY)


async def test_seeds_decide(server: ModelServer) -> None:
    async with asking(server) as provider:
        await answering.check_seeds(provider, TINY)


async def test_what_never_fits_is_refused_once(server: ModelServer) -> None:
    async with asking(server) as provider:
        await answering.check_refusals(provider, TINY)


async def test_what_was_given_up_is_aborted(server: ModelServer) -> None:
    async with asking(server) as provider:
        await answering.check_cancellation(provider, TINY, SEQUENCES)


async def test_it_keeps_the_protocol(server: ModelServer) -> None:
    async def open_one() -> OpenAIProvider:
        return OpenAIProvider(server.base_url, connections_max=32)

    await check_llm_provider(open_one, ask(TINY, answer_type=Guess, max_tokens=40))


async def test_a_server_whose_engine_dies_mid_turn_is_left_alone_until_it_is_back(server: ModelServer) -> None:
    provider = OpenAIProvider(server.base_url, connections_max=32)
    gateway = Gateway(provider, in_flight_max=8, timeout_s=PATIENT_S, retry_total_s=PATIENT_S, attempts_max=20)
    try:
        request = ask(TINY, "direct", max_tokens=LONG_TOKENS)
        direct = asyncio.create_task(provider.complete(request, SchemaMode.TEXT), name="direct")
        calls = [
            asyncio.create_task(gateway.ask(ask(TINY, f"a{number}", answer_type=Guess)), name=f"a{number}")
            for number in range(8)
        ]
        await asyncio.sleep(0.05)
        server.kill_engine()
        with pytest.raises(ModelUnavailableError):
            await direct
        while gateway.statistics().endpoints[0].opened == 0:  # noqa: ASYNC110 - a server is waited for
            await asyncio.sleep(0.05)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        answers = await asyncio.gather(*calls)
        assert all(isinstance(answer.value, Guess) for answer in answers)
        assert gateway.statistics().endpoints[0].breaker is BreakerState.CLOSED
    finally:
        await gateway.aclose()
        # What was started here ends here; it is the last test that asks this server.
        await asyncio.to_thread(server.stop)

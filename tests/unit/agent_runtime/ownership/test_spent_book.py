"""The book of what a run has spent, in a real world: sums over workers, whatever models and phases are called."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from ecumene.client import World, connect
from ecumene.launch.run_spending import Cost, find_spent_path, read_spending

from agent_runtime.llm.admission import Load
from agent_runtime.llm.spending import Tally
from agent_runtime.model.errors import BudgetExceededError
from agent_runtime.ownership.places import RunPlaces, make_places
from agent_runtime.ownership.spent_book import SpentBook
from env_server.testing.in_process import serve_in_process

PLACES = RunPlaces("r")
ODD = "meta/llama 3 ü"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve_in_process() as address, connect(address, create=True) as world:
        await make_places(world, PLACES)
        yield world


def spend(tally: Tally, model: str, phase: str, tokens: int) -> None:
    """One question."""
    tally.add(model, phase, attempts=1, prompt_tokens=tokens, completion_tokens=1, microdollars=2 * tokens)


async def test_workers_add_what_they_have_spent_since_the_last_time(world: World) -> None:
    books = [SpentBook(world, PLACES.spent) for _ in range(2)]
    tallies = [Tally(), Tally()]
    for tokens in (10, 20):
        for book, tally in zip(books, tallies, strict=True):
            spend(tally, "m", "", tokens)
            spend(tally, ODD, "plan it", tokens)
            await book.add(tally.by_model_and_phase())
            await book.add(tally.by_model_and_phase())
    spending = await read_spending(world, "r")
    assert spending.costs == {("m", ""): Cost(4, 60, 4, 120), (ODD, "plan it"): Cost(4, 60, 4, 120)}
    assert (spending.tokens, spending.microdollars) == (128, 240)
    assert await books[0].read() == {"m": Load(64, 120), ODD: Load(64, 120)}


async def test_a_spent_budget_is_told_beside_the_sums(world: World) -> None:
    book = SpentBook(world, PLACES.spent)
    await book.note_exhausted(BudgetExceededError("run", 990, 1000))
    told = await world.environment(find_spent_path("r")).value("exhausted")
    assert told == {"whose": "run", "unit": "tokens", "maximum": 1000}
    assert await book.read() == {}
    assert (await read_spending(world, "r")).tokens == 0


async def test_a_run_without_a_book_has_spent_nothing(world: World) -> None:
    assert await SpentBook(world, RunPlaces("other").spent).read() == {}
    assert (await read_spending(world, "other")).costs == {}

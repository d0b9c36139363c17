"""The cache: identical requests only, bounded, shared by processes, harmless when it fails."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime.llm import Completion, Gateway, Message, ModelRequest, ModelSetupError, SchemaMode, ToolCall
from agent_runtime.llm.records.cache import SqliteCache
from tests.unit.agent_runtime.llm.providers_of_tests import Answering


class Guess(BaseModel):
    number: int


REQUEST = ModelRequest("a", 1, 0, "m", (Message("user", "Pick."),), Guess, temperature=0.5)
MODE = SchemaMode.JSON_SCHEMA
COMPLETION = Completion("four", "stop", 10, 5, "m-1", (ToolCall("c", "look", "{}"),))


async def open_cache(path: Path, bytes_max: int = 10**6) -> SqliteCache:
    return await SqliteCache.open(path / "sub" / "cache.sqlite", bytes_max=bytes_max)


async def test_only_an_identical_request_finds_an_answer_whoever_asks(tmp_path: Path) -> None:
    cache = await open_cache(tmp_path)
    await cache.keep(REQUEST, MODE, COMPLETION)
    assert await cache.find(replace(REQUEST, agent_id="b", turn=7, call=3), MODE) == replace(
        COMPLETION, prompt_tokens=0, completion_tokens=0
    )
    changes: list[dict[str, Any]] = [
        {"temperature": 0.6},
        {"seed": 1},
        {"max_tokens": 9},
        {"model": "n"},
        {"messages": (Message("user", "Pick!"),)},
        {"answer_type": None},
        {"step": 1},
    ]
    for change in changes:
        assert await cache.find(replace(REQUEST, **change), MODE) is None
    assert await cache.find(REQUEST, SchemaMode.PROMPT) is None
    await cache.aclose()
    again = await open_cache(tmp_path)
    assert await again.find(REQUEST, MODE) is not None
    await again.aclose()


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_incomplete_answers_are_not_kept(tmp_path: Path, reason: str) -> None:
    cache = await open_cache(tmp_path)
    await cache.keep(REQUEST, MODE, replace(COMPLETION, finish_reason=reason))
    assert await cache.find(REQUEST, MODE) is None
    await cache.aclose()


async def test_it_is_bounded_and_the_oldest_make_room(tmp_path: Path) -> None:
    cache = await open_cache(tmp_path, bytes_max=10_000)
    for number in range(500):
        await cache.keep(replace(REQUEST, seed=number), MODE, replace(COMPLETION, text="x" * 100))
    found = [number for number in range(500) if await cache.find(replace(REQUEST, seed=number), MODE) is not None]
    assert found == list(range(found[0], 500))
    assert 40 < len(found) < 100
    await cache.keep(REQUEST, MODE, replace(COMPLETION, text="x" * 20_000))
    assert await cache.find(REQUEST, MODE) is None, "an answer larger than all is not kept"
    await cache.aclose()


async def test_two_that_share_a_file_see_each_others_answers(tmp_path: Path) -> None:
    first, second = await open_cache(tmp_path), await open_cache(tmp_path)
    for number in range(50):
        await (first, second)[number % 2].keep(replace(REQUEST, seed=number), MODE, COMPLETION)
    for number in range(50):
        assert await (second, first)[number % 2].find(replace(REQUEST, seed=number), MODE) is not None
    await first.aclose()
    await second.aclose()


async def test_a_file_of_another_kind_is_refused_and_a_failure_later_costs_only_the_cache(tmp_path: Path) -> None:
    wrong = tmp_path / "sub"
    wrong.mkdir()
    (wrong / "cache.sqlite").write_bytes(b"no database, but long enough to be looked at " * 50)
    with pytest.raises(ModelSetupError, match="cache"):
        await open_cache(tmp_path)
    (wrong / "cache.sqlite").unlink()
    cache = await open_cache(tmp_path)
    other = sqlite3.connect(wrong / "cache.sqlite")
    other.execute("DROP TABLE answers")
    other.close()
    await cache.keep(REQUEST, MODE, COMPLETION)
    assert await cache.find(REQUEST, MODE) is None
    await cache.aclose()


async def test_a_gateway_asks_once_and_marks_what_it_did_not_ask(tmp_path: Path) -> None:
    provider = Answering('{"number": 4}')
    gateway = Gateway(provider, cache=await open_cache(tmp_path))
    first = await gateway.ask(REQUEST)
    second = await gateway.ask(replace(REQUEST, agent_id="b"))
    assert (first.cached, first.attempts, first.prompt_tokens) == (False, 1, 3)
    assert (second.cached, second.attempts, second.prompt_tokens) == (True, 0, 0)
    assert first.value == second.value == Guess(number=4)
    assert (provider.calls, gateway.statistics().cached, gateway.statistics().answers) == (1, 1, 2)
    await gateway.aclose()
    await gateway.aclose()


async def test_an_unusable_answer_is_not_kept(tmp_path: Path) -> None:
    provider = Answering("no number")
    gateway = Gateway(provider, cache=await open_cache(tmp_path), repairs_max=0)
    for _ in range(2):
        with pytest.raises(Exception, match="no JSON object"):
            await gateway.ask(REQUEST)
    assert provider.calls == 2
    await gateway.aclose()


@pytest.mark.parametrize(
    "row", ["{", "[]", '["a"]', "3", '["a", "stop", "m", [["c", "look"]]]', '["a", "stop", 3, []]']
)
async def test_a_row_that_cannot_be_read_costs_only_the_cache(tmp_path: Path, row: str) -> None:
    cache = await open_cache(tmp_path)
    await cache.keep(REQUEST, MODE, COMPLETION)
    with sqlite3.connect(tmp_path / "sub" / "cache.sqlite") as database:
        database.execute("UPDATE answers SET completion = ?", (row,))
    assert await cache.find(REQUEST, MODE) is None
    await cache.aclose()

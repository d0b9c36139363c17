"""Recorded answers: found by who asked, refused when the request is another, failures as they were."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime.llm import (
    Gateway,
    Message,
    ModelError,
    ModelReplayError,
    ModelRequest,
    ModelTimeoutError,
    SchemaMode,
    ToolCall,
)
from agent_runtime.llm.providers.replay import ReplayProvider
from agent_runtime.llm.records import RecordedCalls, RecordedCallsError, describe_request, hash_request


class Guess(BaseModel):
    number: int


def ask_as(agent: str, turn: int = 1, call: int = 0) -> ModelRequest:
    return ModelRequest(agent, turn, call, "m", (Message("user", f"Pick, {agent}."),), Guess)


def record(request: ModelRequest, text: str, **more: Any) -> dict[str, Any]:
    body = describe_request(request)
    return {
        "agent": request.agent_id,
        "turn": request.turn,
        "call": request.call,
        "status": "ok",
        "model": "m",
        "request_hash": hash_request(body),
        "request_json": body.decode(),
        "response_text": text,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "finish_reason": "stop",
        **more,
    }


def replay(*rows: dict[str, Any], **options: Any) -> Gateway:
    return Gateway(ReplayProvider(RecordedCalls.of_rows(rows)), **options)


async def test_answers_are_found_by_who_asked_in_any_order(seed: int) -> None:
    requests = [ask_as(f"a{agent}", turn, call) for agent in range(5) for turn in (1, 2) for call in (0, 1)]
    rows = [record(request, f'{{"number": {number}}}') for number, request in enumerate(requests)]
    gateway = replay(*rows)
    order = list(range(len(requests)))
    random.Random(seed).shuffle(order)
    answers = await asyncio.gather(*(gateway.ask(requests[number]) for number in order))
    assert [answer.value for answer in answers] == [Guess(number=number) for number in order]
    assert all((answer.prompt_tokens, answer.completion_tokens) == (10, 5) for answer in answers)


async def test_a_changed_request_says_what_differs_and_a_new_one_that_it_is_new() -> None:
    gateway = replay(record(ask_as("a"), '{"number": 1}'))
    with pytest.raises(ModelReplayError, match="message 0 differs from character 4 on") as caught:
        await gateway.ask(replace(ask_as("a"), messages=(Message("user", "Pick one."),)))
    assert (caught.value.status, caught.value.attempts) == ("error", 1)
    with pytest.raises(ModelReplayError, match="call 0 of turn 2 of a: never recorded"):
        await gateway.ask(ask_as("a", 2))


async def test_a_record_without_bodies_of_requests_still_notices_a_change() -> None:
    gateway = replay(record(ask_as("a"), '{"number": 1}', request_json=None))
    assert (await gateway.ask(ask_as("a"))).value == Guess(number=1)
    with pytest.raises(ModelReplayError, match="its hash is another"):
        await gateway.ask(replace(ask_as("a"), temperature=0.1))


@pytest.mark.parametrize("status", ["parse_error", "truncated", "refused", "timeout", "error"])
async def test_a_failure_fails_again_at_once_with_its_status(status: str) -> None:
    gateway = replay(record(ask_as("a"), "no", status=status, reason="m: as it was"), attempts_max=5)
    with pytest.raises(ModelError) as caught:
        await gateway.ask(ask_as("a"))
    assert (caught.value.status, caught.value.attempts) == (status, 1)


async def test_tool_calls_and_extracted_values_come_back() -> None:
    call = '[{"id": "c1", "name": "look", "arguments": "{}"}]'
    row = record(replace(ask_as("a"), answer_type=None), "", tool_calls_json=call, finish_reason="tool_calls")
    provider = ReplayProvider(RecordedCalls.of_rows([row]))
    completion = await provider.complete(replace(ask_as("a"), answer_type=None), SchemaMode.TEXT)
    assert completion.tool_calls == (ToolCall("c1", "look", "{}"),)

    first = replace(ask_as("b"), answer_type=None)
    gateway = replay(record(first, "I choose 3.", extract_text='{"number": 3}'), is_two_call=True)
    answer = await gateway.ask(ask_as("b"))
    assert (answer.text, answer.extract, answer.value) == ("I choose 3.", '{"number": 3}', Guess(number=3))


def test_a_directory_without_calls_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordedCallsError, match="no calls are recorded"):
        RecordedCalls.load(tmp_path)


async def test_a_question_that_was_cancelled_is_to_its_asker_what_a_time_limit_is() -> None:
    request = ask_as("ann")
    provider = ReplayProvider(RecordedCalls.of_rows([record(request, "", status="cancelled", reason="no time")]))
    for kind in (TimeoutError, ModelTimeoutError):
        with pytest.raises(kind) as caught:
            await Gateway(provider).ask(request)
        assert isinstance(caught.value, ModelError) and caught.value.status == "timeout"

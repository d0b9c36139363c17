"""A model endpoint in every state of disrepair: each question ends once, with the status it deserves."""

from __future__ import annotations

import asyncio
import time
from asyncio.events import Handle
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import (
    Answer,
    Gateway,
    Message,
    ModelError,
    ModelHistoryError,
    ModelRequest,
    SchemaMode,
    Tool,
)
from agent_runtime.llm.prompts import build_messages
from agent_runtime.llm.providers.api_key import ApiKey
from agent_runtime.llm.providers.openai import OpenAIProvider
from tests.model_endpoint import CutBody, CutConnection, Hang, ModelEndpoint, Play, Reply, Status, Step
from tests.simulated_time import now_s, simulated


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


GOOD = Reply('{"number": 33}')
BUSY = Status(429, headers={"Retry-After": "3"})


def ask_as(agent: str) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "Pick a number."),), Guess, max_tokens=50)


class Backoff:
    """Records the waits."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.sleep(seconds)


@asynccontextmanager
async def play(
    default: Play, *steps: Play, refused_formats: Iterable[str] = (), **options: Any
) -> AsyncIterator[tuple[ModelEndpoint, Gateway, Backoff]]:
    """An endpoint with its steps and a gateway to it, in simulated time."""
    backoff = Backoff()
    async with ModelEndpoint(default, refused_formats=refused_formats, api_key="k") as endpoint:
        endpoint.enqueue(*steps)
        provider = OpenAIProvider(endpoint.base_url, api_key=ApiKey("k"), connections_max=32)
        gateway = Gateway(
            provider,
            **{"timeout_s": 5.0, "attempts_max": 4, "in_flight_max": 32, **options},
            clock=now_s,
            sleep=backoff.sleep,
        )
        try:
            yield endpoint, gateway, backoff
        finally:
            await gateway.aclose()
        assert endpoint.complaints == []


@pytest.mark.parametrize(
    "text",
    [
        '{"number": 33}\n\nI chose this since others will choose 50.',
        '<think>they say {"number": 50}</think>\n{"number": 33}',
        '```json\n{"number": 33}\n```',
    ],
)
@simulated
async def test_an_object_among_other_text_is_an_answer(text: str) -> None:
    async with play(Reply(text)) as (_, gateway, _):
        answer = await gateway.ask(ask_as("a"))
    assert (answer.value, answer.attempts) == (Guess(number=33), 1)


@pytest.mark.parametrize(
    "fault",
    [BUSY, Status(500), Status(503, "<html>down</html>"), Status(200, "garbage"), CutBody(), CutConnection()],
    ids=["429", "500", "503", "garbage body", "cut body", "cut connection"],
)
@simulated
async def test_one_passing_fault_costs_one_retry_and_no_question(fault: Step) -> None:
    async with play(GOOD, fault) as (endpoint, gateway, _):
        answer = await gateway.ask(ask_as("a"))
        assert gateway.statistics().retries == 1
    assert (answer.value, answer.attempts, len(endpoint.requests)) == (Guess(number=33), 2, 2)


@pytest.mark.parametrize(
    "fault", [Status(500), Status(200, "garbage"), CutBody(), CutConnection()], ids=lambda fault: str(fault)[:20]
)
@simulated
async def test_a_lasting_fault_ends_as_error_after_the_last_attempt(fault: Step) -> None:
    async with play(fault) as (endpoint, gateway, _):
        await expect_status("error", gateway.ask(ask_as("a")), attempts=4)
    assert len(endpoint.requests) == 4


@simulated
async def test_retry_after_is_honoured() -> None:
    async with play(GOOD, BUSY, BUSY) as (_, gateway, backoff):
        await gateway.ask(ask_as("a"))
    assert len(backoff.slept_s) == 2
    assert all(3.0 <= slept <= 3.3 for slept in backoff.slept_s)


@simulated
async def test_a_wait_longer_than_the_time_left_is_not_begun() -> None:
    async with play(Status(429, headers={"Retry-After": "900"})) as (_, gateway, backoff):
        await expect_status("error", gateway.ask(ask_as("a")), attempts=1)
    assert backoff.slept_s == []


@simulated
async def test_a_permanent_error_is_asked_once_and_told_in_one_line() -> None:
    async with play(Status(403, '{"error": {"message": "' + "no\\n" * 500 + '"}}')) as (endpoint, gateway, _):
        error = await expect_status("error", gateway.ask(ask_as("a")), attempts=1)
    assert len(endpoint.requests) == 1
    assert "\n" not in str(error)
    assert len(str(error)) < 300


@simulated
async def test_a_hang_ends_as_timeout_and_closes_the_request() -> None:
    async with play(Hang(), timeout_s=0.05, attempts_max=2) as (endpoint, gateway, _):
        await expect_status("timeout", gateway.ask(ask_as("a")), attempts=2)
        await until(lambda: endpoint.given_up == 2)


@simulated
async def test_hung_calls_do_not_stop_the_others() -> None:
    async with play(GOOD, *([Hang(), *[GOOD] * 9] * 20), timeout_s=1.0) as (_, gateway, _):
        answers = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}")) for i in range(200)))
        assert gateway.statistics().retries >= 20
    assert all(answer.value == Guess(number=33) for answer in answers)


@simulated
async def test_a_truncated_answer_is_repaired_once_then_truncated() -> None:
    cut = Reply('{"number": 3', finish_reason="length")
    async with play(GOOD, cut) as (_, gateway, _):
        assert (await gateway.ask(ask_as("a"))).attempts == 2
    async with play(cut) as (endpoint, gateway, _):
        await expect_status("truncated", gateway.ask(ask_as("a")), attempts=2)
    assert len(endpoint.requests) == 2


@simulated
async def test_garbage_is_repaired_once_then_a_parse_error() -> None:
    async with play(GOOD, Reply("a hundred and one")) as (endpoint, gateway, _):
        assert (await gateway.ask(ask_as("a"))).attempts == 2
        assert [message["role"] for message in endpoint.requests[1]["messages"]] == ["user", "assistant", "user"]
    async with play(Reply('{"number": 101}')) as (endpoint, gateway, _):
        error = await expect_status("parse_error", gateway.ask(ask_as("a")), attempts=2)
    assert "less than or equal to 100" in str(error)


@pytest.mark.parametrize("reply", [Reply("", refusal="I can't."), Reply("", finish_reason="content_filter")])
@simulated
async def test_a_refusal_is_asked_once(reply: Reply) -> None:
    async with play(reply) as (endpoint, gateway, _):
        await expect_status("refused", gateway.ask(ask_as("a")), attempts=1)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("refused", "mode", "attempts"),
    [
        ((), SchemaMode.JSON_SCHEMA, 1),
        (("json_schema",), SchemaMode.JSON_OBJECT, 2),
        (("json_schema", "json_object"), SchemaMode.PROMPT, 3),
    ],
)
@simulated
async def test_an_endpoint_gets_the_strictest_mode_it_accepts(
    refused: tuple[str, ...], mode: SchemaMode, attempts: int
) -> None:
    async with play(GOOD, refused_formats=refused) as (_, gateway, _):
        first = await gateway.ask(ask_as("a"))
        second = await gateway.ask(ask_as("b"))
        assert gateway.schema_modes() == {"m/Guess": mode}
    assert (first.mode, first.attempts) == (mode, attempts)
    assert (second.mode, second.attempts) == (mode, 1)


@simulated
async def test_every_question_of_a_crowd_ends_once_at_an_endpoint_with_all_faults() -> None:
    faults = [BUSY, Status(500), CutBody(), CutConnection(), Status(200, "half {"), Reply("prose only"), Hang()]
    steps = [step for fault in faults * 10 for step in (fault, GOOD, GOOD)]
    async with play(GOOD, *steps, timeout_s=1.0) as (endpoint, gateway, _):
        results = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}")) for i in range(150)), return_exceptions=True)
        statistics = gateway.statistics()
    answers = [result for result in results if isinstance(result, Answer)]
    errors = [result for result in results if isinstance(result, ModelError)]
    assert len(answers) + len(errors) == 150
    assert len(answers) >= 140
    assert statistics.calls == len(endpoint.requests) == sum(result.attempts for result in [*answers, *errors])
    assert (statistics.in_flight, statistics.waiting, statistics.held_back) == (0, 0, 0)


PERMANENT = [400, 401, 402, 403, 404, 405, 410, 413, 422, 501]


@pytest.mark.parametrize("status", PERMANENT)
@simulated
async def test_no_permanent_refusal_is_repeated(status: int) -> None:
    lines = "\n".join(f'  "line {number}": {{"nested": [1, 2, 3]}},' for number in range(200))
    body = '{"error": {"message": "no", ' + lines + ' "code": 1}}'
    plain = ModelRequest("a", 1, 0, "m", (Message("user", "Say something."),))
    async with play(Status(status, body)) as (endpoint, gateway, backoff):
        error = await expect_status("error", gateway.ask(plain), attempts=1)
        modes = 3 if status in (400, 422, 501) else 1
        await expect_status("error", gateway.ask(ask_as("b")), attempts=modes)
    assert len(endpoint.requests) == 1 + modes
    assert backoff.slept_s == []
    assert len(str(error)) < 300
    assert "\n" not in str(error)


@simulated
async def test_a_spent_account_is_no_reason_to_wait() -> None:
    spent = Status(429, '{"error": {"message": "quota", "code": "insufficient_quota"}}', {"Retry-After": "1"})
    async with play(spent) as (endpoint, gateway, _):
        await expect_status("error", gateway.ask(ask_as("a")), attempts=1)
    assert len(endpoint.requests) == 1


@simulated
async def test_a_model_that_loops_in_its_grammar_is_asked_without_it() -> None:
    def loop(body: dict[str, Any]) -> Reply:
        if "response_format" in body:
            return Reply("<think>hm" + " \n" * 200, finish_reason="length")
        return GOOD

    async with play(loop) as (endpoint, gateway, _):
        answer = await gateway.ask(ask_as("a"))
    assert (answer.value, answer.mode, answer.attempts) == (Guess(number=33), SchemaMode.PROMPT, 2)
    assert "JSON schema" in endpoint.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "texts", [("I would say 33.", '{"number": 33}'), ("<think>50?</think>33", "33", '{"number": 33}')]
)
@simulated
async def test_two_calls_ask_freely_then_extract(texts: tuple[str, ...]) -> None:
    async with play(GOOD, *map(Reply, texts), is_two_call=True) as (endpoint, gateway, _):
        answer = await gateway.ask(ask_as("a"))
    assert (answer.value, answer.text, answer.extract) == (Guess(number=33), texts[0], '{"number": 33}')
    assert "response_format" not in endpoint.requests[0]
    assert endpoint.requests[1]["response_format"]["type"] == "json_schema"


LOOK = Tool("look", "Looks around.", {"type": "object", "properties": {"where": {"type": "string"}}})


@simulated
async def test_call_after_call_of_tools_has_its_replies_in_the_history() -> None:
    """The second call, and any later one, alone and several at once."""
    made = [
        (("c1", "look", "{}"),),
        (("c2", "look", '{"where": "north"}'), ("c3", "look", "{}")),
        (("c4", "look", "{}"),),
    ]
    steps = [Reply("", calls=calls) for calls in made]
    async with play(GOOD, *steps) as (endpoint, gateway, _):
        history = [Message("user", "Look around, then pick a number.")]
        for number in range(4):
            request = ModelRequest("a", 1, number, "m", tuple(history), Guess, tools=(LOOK,))
            answer = await gateway.ask(request)
            if answer.value is not None:
                break
            history.append(Message("assistant", answer.text, answer.tool_calls))
            history += [Message("tool", "A tree.", (), call.id) for call in answer.tool_calls]
        assert answer.value == Guess(number=33)
        assert len(endpoint.requests) == 4
        # A history that lacks a reply never leaves.
        with pytest.raises(ModelHistoryError):
            await gateway.ask(ModelRequest("a", 1, 9, "m", tuple(history[:4]), tools=(LOOK,)))
    assert len(endpoint.requests) == 4


@simulated
async def test_two_thousand_rounds_keep_their_prompts_within_the_budget() -> None:
    memory: list[str] = []
    async with play(GOOD) as (endpoint, gateway, _):
        for number in range(2000):
            memory.append(f"In round {number} I said {number % 7} and the winner was {number % 11}.")
            messages = build_messages(rules="Rules. " * 50, round=f"Round {number}.", memory=memory, tokens_max=800)
            await gateway.ask(ModelRequest("a", number, 0, "m", messages, Guess))
    sizes = [sum(len(message["content"].split()) for message in body["messages"]) for body in endpoint.requests]
    assert len(sizes) == 2000
    assert max(sizes[200:]) <= 1.05 * min(sizes[200:])
    assert max(sizes) < 800


HUGE = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "{" * HUGE,
        '{"number":' * (HUGE // 10),
        '{"number": ' + "9" * HUGE + "}",
        "[" * HUGE + "{",
        '{"a": "' + "x{" * (HUGE // 2),
        "<think>" * (HUGE // 7),
        "</think>" * (HUGE // 8),
        '{"number": 101} ' * (HUGE // 16),
        "\\u" * (HUGE // 2) + "{",
    ],
    ids=lambda text: text[:9],
)
@simulated
async def test_no_answer_stalls_the_others(text: str) -> None:
    """Whatever a model writes is read, or given up, in a moment: everybody waits on the same loop."""
    async with play(Reply(text), repairs_max=0) as (_, gateway, _):
        loop = asyncio.get_running_loop()
        slow: list[float] = []
        run = Handle._run

        def timed(handle: Handle) -> None:
            start_s = time.perf_counter()
            run(handle)
            slow.append(time.perf_counter() - start_s)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Handle, "_run", timed)
            with pytest.raises(ModelError) as caught:
                await gateway.ask(ask_as("a"))
        assert caught.value.status == "parse_error"
        assert max(slow) < 0.5, "of a million characters"
        assert loop.is_running()


async def expect_status(status: str, ask: Any, *, attempts: int) -> ModelError:
    """Awaits a question that fails and returns its error."""
    with pytest.raises(ModelError) as caught:
        await ask
    assert (caught.value.status, caught.value.attempts) == (status, attempts)
    return caught.value


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the other side has noticed."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  counts of the other side, which has no event for them
            await asyncio.sleep(0.005)

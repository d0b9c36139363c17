"""Turns whose model calls tools, errs, hangs or is slow: the others go on, and prompts stay within their bounds."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from ecumene import World, connect

from agent_runtime.llm.requests import ModelRequest
from agent_runtime.llm.tokens import estimate_prompt_tokens
from agent_runtime.model.draws import Draw
from tests.model_endpoint import Hang, ModelEndpoint, Reply, Step
from tests.promises.turn_stage import TRADING, read_account, ring, set_real_stage
from tests.services import ServerProcess
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage
from tests.unit.ecumene.client.fake_server import reached

HERE = "tests.faults.test_model_turns"
NUMBER = json.dumps({"number": 12.5})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    with ServerProcess(tmp_path / "data") as server:
        async with connect(server.address) as opened:
            yield opened


def endpoint_model(endpoint: ModelEndpoint, **more: Any) -> dict[str, Any]:
    return {"m": {"provider": "openai", "model": "m", "base_url": endpoint.base_url, "attempts_max": 1, **more}}


async def test_tools_of_a_real_market_through_a_strict_endpoint(tmp_path: Path, world: World) -> None:
    """Several calls, one after the other and at once, bad ones among them: no request is malformed, no turn is lost."""
    order = {"side": "sell", "good": "corn", "price": 10, "quantity": 1}

    def play(body: dict[str, Any]) -> Step:
        said = sum(message["role"] == "assistant" for message in body["messages"])
        if said == 0:
            return Reply("", calls=(("x", "account", "{}"), ("x2", "book", json.dumps({"good": "corn"}))))
        if said == 1:
            return Reply("<think>I sell.</think>", calls=(("x", "place", json.dumps({**order, "quantity": -1})),))
        if said == 2:
            return Reply("I correct that.", calls=(("x", "place", json.dumps(order)),))
        return Reply("I sold one.")

    async with ModelEndpoint(play) as endpoint:
        group = {"models": endpoint_model(endpoint), "parameters": {"tools": [TRADING]}}
        async with set_real_stage(tmp_path, world, "prompted-agent", ["ann", "bob", "cyd"], **group) as stage:
            for number in (1, 2):
                await ring(world, stage, number)
            goods = [(await read_account(world, name))["goods"]["corn"] for name in ("ann", "bob", "cyd")]
        assert endpoint.complaints == [] and len(endpoint.requests) == 24
    assert stage.statuses == {"ok": 6} and goods == [3, 3, 3]
    assert {row["flags"] for row in stage.read("turns")} == {"corrected"}
    remembered = endpoint.requests[-1]["messages"][1]["content"]
    assert "Turn 1:" in remembered and "You did: place" in remembered and "<think>" not in json.dumps(endpoint.requests)


def talk(request: ModelRequest, draw: Draw) -> str:
    """Says much, and more each time."""
    requests.append(request)
    words = ("bread", "market", "яблоко", "面包", "42.17", "weather")
    return " ".join(draw.choice(words) for _ in range(60))


requests: list[ModelRequest] = []


@pytest.mark.parametrize("condense", [False, True])
@pytest.mark.parametrize("rounds", [400, pytest.param(2_000, marks=pytest.mark.long)])
async def test_over_many_rounds_prompts_stay_within_their_bound_and_flat(
    tmp_path: Path, condense: bool, rounds: int
) -> None:
    bound = 1_200
    requests.clear()
    models = {"m": {"provider": "scripted", "answers": f"{HERE}:talk", "max_tokens": 200}}
    parameters = {"prompt_tokens_max": bound, "memory_tokens_max": 600, "condense": condense}
    launch = make_launch(tmp_path, "prompted-agent", ["ann"], models=models, parameters=parameters)
    async with set_stage(tmp_path, launch) as stage:
        for number in range(1, rounds + 1):
            stage.world.open_round(number, news="x" * (number % 97))
            await stage.wait_turns(number)
    assert stage.statuses == {"ok": rounds}
    sizes = [estimate_prompt_tokens(request) for request in requests if request.phase == "act"]
    assert len(sizes) == rounds and max(sizes) <= bound
    late = sizes[rounds // 10 :]
    tenths = [sum(late[start : start + 180]) / 180 for start in range(0, len(late) - 179, 180)]
    assert max(tenths) / min(tenths) < 1.1, tenths
    assert max(late) - min(late) < bound / 3
    assert f"Round {rounds - 1}" in requests[-1].messages[1].content
    condensing = [request for request in requests if request.phase == "memory"]
    assert bool(condensing) is condense and len(condensing) < rounds
    assert all(estimate_prompt_tokens(request) < bound for request in condensing)
    turns = stage.read("turns")
    assert max(row["prompt_tokens"] for row in turns) <= 2 * bound


async def test_calls_that_never_answer_hold_up_nobody_else(tmp_path: Path) -> None:
    """10 % of the calls hang, and there are fewer places at the endpoint than agents: rounds and the others go on."""
    agents, rounds = 40, 4
    served = hung = 0

    def play(body: dict[str, Any]) -> Step:
        nonlocal served, hung
        served += 1
        hung += served % 10 == 0
        return Hang() if served % 10 == 0 else Reply(NUMBER, delay_s=0.01)

    async with ModelEndpoint(play) as endpoint:
        models = endpoint_model(endpoint, in_flight_max=8, timeout_s=0.5)
        ids = [f"a-{number}" for number in range(agents)]
        async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Asker", ids, models=models)) as stage:
            for number in range(1, rounds + 1):
                stage.world.open_round(number)
                await stage.wait_turns(agents * number, timeout_s=20.0)
        # The endpoint hears a moment later that a client has gone.
        await reached(lambda: endpoint.given_up >= hung)
        assert endpoint.given_up == hung
    # On a busy machine half a second may also pass before the endpoint has looked at a call.
    statuses = stage.statuses
    assert statuses.keys() == {"ok", "timeout"} and statuses["ok"] + statuses["timeout"] == agents * rounds
    assert agents * rounds // 20 <= hung <= statuses["timeout"] <= agents * rounds // 5
    turns = stage.read("turns")
    good = sorted(row["latency_ms"] for row in turns if row["status"] == "ok")
    assert good[len(good) // 2] < 1_000 and good[-1] < 3_000, "eight places, half a second lost at worst in each"
    assert {row["round"] for row in turns if row["status"] == "ok"} == {1, 2, 3, 4}


async def run_once(
    folder: Path, endpoint: ModelEndpoint, agents: int, in_flight_max: int, clock: Callable[[], float] = time.monotonic
) -> float:
    """Seconds that one round of so many agents takes, by a clock."""
    await asyncio.to_thread(folder.mkdir)
    ids = [f"a-{number}" for number in range(agents)]
    models = endpoint_model(endpoint, in_flight_max=in_flight_max)
    async with set_stage(folder, make_launch(folder, f"{PLAYERS}:Asker", ids, models=models)) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(agents, timeout_s=60.0)
        stage.world.open_round(2)
        begun_s = clock()
        await stage.wait_turns(2 * agents, timeout_s=60.0)
        took_s = clock() - begun_s
    assert stage.statuses == {"ok": 2 * agents}
    return took_s


async def test_many_at_a_time_are_as_much_faster_as_the_model_allows(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply(NUMBER, delay_s=0.05)) as endpoint:
        serial_s = await run_once(tmp_path / "serial", endpoint, 40, 1)
        parallel_s = await run_once(tmp_path / "parallel", endpoint, 40, 40)
    assert serial_s > 2.0
    assert parallel_s < serial_s / 4, (serial_s, parallel_s)


async def test_many_at_a_time_are_not_slower_where_the_model_answers_at_once(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply(NUMBER)) as endpoint:

        async def measure(name: str, in_flight_max: int) -> float:
            # Nobody waits for the model here, so what a question takes is what it costs this process, and that does not
            # depend on who else wants the machine's cores. As in a worker, the collector does not look through what
            # lives: here that is all that earlier tests have left, and one pass costs more than 600 questions.
            gc.collect()
            gc.disable()
            try:
                return await run_once(tmp_path / name, endpoint, 600, in_flight_max, time.process_time)
            finally:
                gc.enable()

        pairs = [(await measure(f"parallel-{n}", 64), await measure(f"serial-{n}", 1)) for n in range(4)]
    assert statistics.median(many / one for many, one in pairs) < 1.2, pairs

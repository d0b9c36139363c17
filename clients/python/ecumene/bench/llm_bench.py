"""`ecumene bench llm`: what the gateway of a runtime takes from a model endpoint, beside a bare load generator.

    gateway   an agent asks, with admission, retries, time limits, answers read into their type, ledger and records
    bare      an aiohttp session, as many tasks as questions at a time

Both ask the same questions, in turn, first against an endpoint that answers at once, so that only the client counts;
then against a real server, whose tokens a second count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from ecumene.bench.llm_questions import Asked
from ecumene.bench.llm_sides import Sample, Side, measure, open_gateway, open_lean
from ecumene.bench.machine import describe_machine
from ecumene.bench.packaged_model import SLOTS, ModelAbsentError, serve_packaged_model
from ecumene.bench.processes import READY_TIMEOUT_S, BenchError, make_directory, run_child
from ecumene.bench.results import Goal, Report, Result, take_median

INSTANT_MODULE = "ecumene.bench.instant_model"
GATEWAY_GOAL = Goal(at_least=0.9)
SERVER_GOAL = Goal(at_least=0.95)
WARM_SHARE = 0.1

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked: questions a sample, of them at a time, samples, and tokens of an answer at most."""

    questions: int
    at_a_time: int
    repeats: int
    tokens_max: int = 64


INSTANT_SIZE, INSTANT_QUICK = Size(20_000, 64, 7), Size(200, 64, 1)
SERVER_SIZE, SERVER_QUICK = Size(96, SLOTS, 5), Size(2, 2, 1, 8)


@dataclass(frozen=True, slots=True)
class Pair:
    """One sample of each side, taken in turn."""

    gateway: Sample
    bare: Sample


async def bench_llm(*, is_quick: bool, note: Note, asked: Asked | None = None, questions: int | None = None) -> Report:
    """Measure the gateway against an instant endpoint and the packaged model; or, with `asked`, against that server.

    `note` is told what is being done, and what is left out since the packaged model is not installed.

    Raises:
        BenchError: a part failed or took too long, or a question was not answered.
        LaunchError: a service did not start, or ended.
    """
    machine = await asyncio.to_thread(describe_machine)
    size = SERVER_QUICK if is_quick else SERVER_SIZE
    if questions is not None:
        size = replace(size, questions=questions)
    if asked is not None:
        return Report("llm", machine, await measure_server(asked, (), size, note), is_quick)
    results = await measure_instant(INSTANT_QUICK if is_quick else INSTANT_SIZE, note)
    try:
        async with (
            make_directory() as directory,
            serve_packaged_model(directory, size.tokens_max, size.at_a_time) as (packaged, pid),
        ):
            results += await measure_server(packaged, [pid], size, note)
    except ModelAbsentError as error:
        note(f"server_ratio is left out: {error}")
    return Report("llm", machine, results, is_quick)


async def measure_instant(size: Size, note: Note) -> list[Result]:
    """What the gateway costs where the model costs nothing."""
    async with run_child(INSTANT_MODULE, []) as endpoint:
        told = await endpoint.read(READY_TIMEOUT_S)
        asked = Asked(told["base_url"], "instant", is_shaped=True, tokens_max=size.tokens_max, at_a_time=size.at_a_time)
        pairs, sent = await compare(asked, [endpoint.pid], size, note)
        endpoint.go()
        answered = (await endpoint.read(READY_TIMEOUT_S))["answered"]
    if answered != sent:
        raise BenchError(f"{sent:,} questions were asked and {answered:,} arrived")
    return summarise("gateway_ratio", "gateway_calls", "calls/s", pairs, lambda one: one.calls_s, GATEWAY_GOAL)


async def measure_server(asked: Asked, pids: Sequence[int], size: Size, note: Note) -> list[Result]:
    """Tokens a second that the gateway takes from a server; `pids` are its processes, where they are known."""
    pairs, _ = await compare(asked, pids, size, note)
    return summarise("server_ratio", "server_tokens", "tokens/s", pairs, lambda one: one.tokens_s, SERVER_GOAL)


async def compare(asked: Asked, endpoint_pids: Sequence[int], size: Size, note: Note) -> tuple[list[Pair], int]:
    """Both sides in turn, who begins changes; and how many questions were asked in all, no two of them the same."""
    sent = 0
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(open_gateway(asked))
        bare = await stack.enter_async_context(open_lean(asked))

        async def take(side: Side, questions: int) -> Sample:
            nonlocal sent
            first, sent = sent, sent + questions
            return await measure(side, endpoint_pids, first, questions)

        warm = max(asked.at_a_time, round(size.questions * WARM_SHARE))
        for side in (gateway, bare):
            await take(side, warm)
        pairs = []
        for repeat in range(size.repeats):
            note(f"{asked.model}, {asked.at_a_time} at a time, sample {repeat + 1}")
            sides: list[Side] = [gateway, bare] if repeat % 2 == 0 else [bare, gateway]
            samples = {id(side): await take(side, size.questions) for side in sides}
            pairs.append(Pair(samples[id(gateway)], samples[id(bare)]))
        return pairs, sent


def summarise(
    ratio: str, rate: str, unit: str, pairs: Sequence[Pair], take: Callable[[Sample], float], goal: Goal
) -> list[Result]:
    """The ratio of each pair, and what it is made of."""
    ratios = [take(pair.gateway) / take(pair.bare) for pair in pairs]
    details = {
        "gateway_us_call": take_median([pair.gateway.cpu_us_call for pair in pairs]),
        "bare_us_call": take_median([pair.bare.cpu_us_call for pair in pairs]),
        "endpoint_us_call": take_median([pair.bare.endpoint_us_call for pair in pairs]),
    }
    rates = [take(pair.gateway) for pair in pairs]
    limit = take_median([take(pair.bare) for pair in pairs])
    return [
        Result(ratio, take_median(ratios), "1", goal=goal, samples=ratios),
        Result(rate, take_median(rates), unit, limit, samples=rates, details=details),
    ]

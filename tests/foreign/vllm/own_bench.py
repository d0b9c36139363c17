"""What a runtime's gateway takes from vllm's server, beside vllm's own benchmark of it, on the same prompts:

    .venv-vllm/bin/python -m tests.foreign.vllm.own_bench [tiny|smollm2] [QUESTIONS] [PAIRS]

Both ask in turn, as many questions at a time, of the same server; the prompts are the same token for token. vllm's
benchmark sends them rendered, to its route for completions; the gateway sends messages to the route for chats.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from ecumene.bench.llm_questions import Asked, Questions
from ecumene.bench.llm_sides import GatewaySide, measure, open_gateway

from tests.foreign.vllm.builds import Build, find_build
from tests.foreign.vllm.engine_owner import give_up
from tests.foreign.vllm.model_server import ModelServer
from tests.foreign.vllm.models import CHAT_TEMPLATE, TINY

AT_A_TIME = 16
TOKENS_MAX = 64
BENCH_TIMEOUT_S = 600
# `vllm bench serve`, past a command line that looks for a distribution of the name vllm.
OWN_BENCH = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


async def main(model: str, questions: int, pairs: int) -> None:
    """Prints one line of JSON."""
    build = find_build(give_up)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with ModelServer(build, model, folder / "server.log") as server:
            asked = Asked(server.base_url, model, tokens_max=TOKENS_MAX, at_a_time=AT_A_TIME)
            async with open_gateway(asked) as gateway:
                await take_gateway(gateway, 0, questions // 4)
                ours, theirs = [], []
                for pair in range(pairs):
                    first = (2 * pair + 1) * questions
                    ours.append(await take_gateway(gateway, first, questions))
                    own = partial(run_own_bench, build, server, folder, first + questions, questions)
                    theirs.append(await asyncio.to_thread(own))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    told = {"build": build.version, "model": model, "questions": questions, "gateway_tokens_s": ours}
    told |= {"vllm_tokens_s": theirs, "ratios": ratios, "server_ratio": statistics.median(ratios)}
    sys.stdout.write(json.dumps(told) + "\n")


async def take_gateway(gateway: GatewaySide, first: int, questions: int) -> float:
    """Tokens a second through the gateway."""
    return (await measure(gateway, [], first, questions)).tokens_s


def run_own_bench(build: Build, server: ModelServer, folder: Path, first: int, questions: int) -> float:
    """Tokens a second by vllm's benchmark. Raises CalledProcessError, AssertionError if a request failed."""
    prompts, result = folder / "prompts.jsonl", folder / "result.json"
    maker = Questions(Asked(server.base_url, server.model))
    lines = [json.dumps({"prompt": render(maker.build(number))}) for number in range(first, first + questions)]
    prompts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-c", OWN_BENCH, "--backend", "openai"]
    command += ["--base-url", server.base_url.removesuffix("/v1"), "--endpoint", "/v1/completions"]
    command += ["--model", server.model, "--tokenizer", build.model(server.model), "--temperature", "1.0"]
    command += ["--dataset-name", "custom", "--dataset-path", str(prompts), "--skip-chat-template", "--disable-shuffle"]
    command += ["--custom-output-len", str(TOKENS_MAX), "--num-prompts", str(questions)]
    command += ["--max-concurrency", str(AT_A_TIME), "--save-result", "--result-dir", str(folder)]
    command += ["--result-filename", result.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BENCH_TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(result.read_text())
    assert told["completed"] == questions
    return float(told["output_throughput"])


def render(request: dict[str, object]) -> str:
    """A chat as the model reads it."""
    import jinja2

    return jinja2.Template(CHAT_TEMPLATE).render(messages=request["messages"], add_generation_prompt=True)


if __name__ == "__main__":
    given = [*sys.argv[1:], *[TINY, "64", "3"][len(sys.argv) - 1 :]]
    asyncio.run(main(given[0], int(given[1]), int(given[2])))

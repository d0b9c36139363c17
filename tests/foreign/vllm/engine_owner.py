"""A process with one engine, which says `ready` and waits to be killed: `python -m tests.foreign.vllm.engine_owner`."""

from __future__ import annotations

import asyncio
import sys
from typing import NoReturn

from agent_runtime.llm.providers.vllm import open_engines
from agent_runtime.llm.settings import VllmSettings
from tests.foreign.vllm.builds import find_build


async def main(model: str) -> None:
    """Opens the engine and waits."""
    build = find_build(give_up)
    await open_engines(model, VllmSettings(gpus=build.gpus, arguments=build.arguments))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def give_up(reason: str) -> NoReturn:
    """The caller has looked before."""
    raise SystemExit(reason)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

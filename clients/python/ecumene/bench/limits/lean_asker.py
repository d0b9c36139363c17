"""A bare load generator for models: a plain aiohttp session, as many tasks as questions at a time, and nothing else.

`python -m ecumene.bench.limits.lean_asker ASKED`: says when it is ready; for each `{"first": …, "questions": …}` that
it is told it asks so many questions, reads the answers, and prints what came of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from pydantic_core import from_json, to_json

from ecumene.bench.child import Parent, run_child, tell
from ecumene.bench.llm_questions import Asked, Questions


@dataclass(slots=True)
class Sums:
    """What came of all questions."""

    answered: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LeanAsker:
    """Asks, reads, counts; knows no limits, time-outs, retries, shapes or records."""

    def __init__(self, asked: Asked, session: aiohttp.ClientSession) -> None:
        self._asked = asked
        self._questions = Questions(asked)
        self._session = session
        self._url = f"{asked.base_url}/chat/completions"

    async def ask_all(self, first: int, questions: int) -> dict[str, Any]:
        """So many questions, numbered from `first`."""
        numbers, sums = iter(range(first, first + questions)), Sums()
        start_s = time.perf_counter()
        async with asyncio.TaskGroup() as asking:
            for place in range(min(self._asked.at_a_time, questions)):
                asking.create_task(self._ask_each(numbers, sums), name=f"asks {place}")
        return {
            "answered": sums.answered,
            "failed": sums.failed,
            "prompt_tokens": sums.prompt_tokens,
            "completion_tokens": sums.completion_tokens,
            "wall_s": time.perf_counter() - start_s,
        }

    async def _ask_each(self, numbers: Iterator[int], sums: Sums) -> None:
        for number in numbers:
            body = to_json(self._questions.build(number))
            async with self._session.post(self._url, data=body) as response:
                content = await response.read()
                if response.status != 200:
                    sums.failed += 1
                    continue
            reply = from_json(content)
            # What an answer is read for.
            if not reply["choices"][0]["message"]["content"]:
                sums.failed += 1
                continue
            usage = reply["usage"]
            sums.answered += 1
            sums.prompt_tokens += usage["prompt_tokens"]
            sums.completion_tokens += usage["completion_tokens"]


async def main(asked: Asked) -> None:
    """Everything, on the parent's word."""
    gc.disable()
    headers = {"Content-Type": "application/json"}
    if asked.api_key_file:
        key = await asyncio.to_thread(Path(asked.api_key_file).read_text, "utf-8")
        headers["Authorization"] = f"Bearer {key.strip()}"
    connector = aiohttp.TCPConnector(limit=asked.at_a_time)
    opened = aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None))
    async with Parent() as parent, opened as session:
        asker = LeanAsker(asked, session)
        tell({"ready": True})
        while load := await parent.read():
            tell(await asker.ask_all(load["first"], load["questions"]))


if __name__ == "__main__":
    run_child(main(Asked(**json.loads(sys.argv[1]))))

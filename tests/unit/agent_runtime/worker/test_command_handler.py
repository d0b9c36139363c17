"""Commands of a daemon: each is answered once, whatever it says."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import UnavailableError

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.programs.output import LINE_BYTES_MAX, JsonLines
from agent_runtime.worker.command_handler import CommandHandler
from agent_runtime.worker.hosted_part import HostedPart
from agent_runtime.worker.pipeline import Pipeline
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage, wait_until

PART = Part(group="g", number=0, first=0, end=2).model_dump()


async def tell(folder: Path, *lines: str | dict[str, Any]) -> list[dict[str, Any]]:
    """What a worker with one part answers."""
    written = io.StringIO()
    async with set_stage(folder, make_launch(folder, f"{PLAYERS}:Rule", ["n-1", "n-2"])) as stage:
        told: asyncio.Queue[str] = asyncio.Queue()
        obeying = asyncio.create_task(CommandHandler(stage.pipeline, JsonLines(written)).obey(told), name="obey")
        for count, line in enumerate(lines, 1):
            told.put_nowait(line if isinstance(line, str) else json.dumps(line))
            await wait_until(lambda count=count: written.getvalue().count("\n") >= count)
        obeying.cancel()
        await asyncio.gather(obeying, return_exceptions=True)
    return [json.loads(line) for line in written.getvalue().splitlines()]


async def test_a_part_is_inspected_dropped_and_hosted(tmp_path: Path) -> None:
    inspected, dropped, gone, hosted = await tell(
        tmp_path,
        {"id": 1, "do": "inspect"},
        {"id": 2, "do": "drop", "part": "g.0"},
        {"id": 3, "do": "drop", "part": "g.0"},
        {"id": 4, "do": "host", "part": PART},
    )
    assert (inspected["answer"], inspected["parts"]["g.0"]["agents"]) == (1, 2)
    assert inspected["usage"]["pid"] > 0
    assert dropped.keys() == {"answer", "through"}
    assert gone == {"answer": 3, "error": "parts.g.0: this worker does not host it"}
    assert (hosted["agents"], hosted["term"] > inspected["parts"]["g.0"]["term"]) == (2, True)
    assert hosted["through"] == dropped["through"]


@pytest.mark.parametrize(
    "defect", [KeyError("x"), RecursionError(), OverflowError(), SystemExit(3), asyncio.CancelledError(), TypeError()]
)
async def test_whatever_goes_wrong_in_a_command_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: BaseException
) -> None:
    def fail(*_: Any) -> Any:
        raise defect

    monkeypatch.setattr(Pipeline, "find_agent", fail)
    ask = {"do": "ask", "agent": "n-1", "question": "?"}
    answers = await tell(tmp_path, {"id": 1, **ask}, {"id": 2, "do": "inspect"}, {"id": 3, **ask})
    assert [(answer["answer"], "error" in answer) for answer in answers] == [(1, True), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("said", "is_told"),
    [("half a sign: \ud800", True), (float("nan"), True), ("x" * LINE_BYTES_MAX, False), ({1, 2}, False), (b"", False)],
)
async def test_whatever_an_answer_holds_the_command_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, is_told: bool
) -> None:
    async def answer(*_: Any) -> dict[str, Any]:
        return {"text": said}

    monkeypatch.setattr(HostedPart, "interview", answer)
    (answered,) = await tell(tmp_path, {"id": 1, "do": "ask", "agent": "n-1", "question": "?"})
    assert answered["answer"] == 1
    assert ("text" in answered, "error" in answered) == (is_told, not is_told)


async def test_what_may_pass_is_told_apart_from_what_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Exception] = [OSError(28, "No space left on device"), UnavailableError(), LaunchError("a", "b")]

    async def fail(*_: Any) -> Any:
        raise raised.pop(0)

    monkeypatch.setattr(Pipeline, "drop", fail)
    drop = {"do": "drop", "part": "g.0"}
    answers = await tell(tmp_path, *({"id": number, **drop} for number in (1, 2, 3)))
    assert [answer.get("may_pass", False) for answer in answers] == [True, True, False]


async def test_how_turns_ended_is_told_with_the_part(tmp_path: Path) -> None:
    written = io.StringIO()
    launch = make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-1", "number-2", "raise-1"])
    async with set_stage(tmp_path, launch) as stage:
        for number in (1, 2):
            stage.world.open_round(number)
            await stage.wait_turns(3 * number)
        told: asyncio.Queue[str] = asyncio.Queue()
        obeying = asyncio.create_task(CommandHandler(stage.pipeline, JsonLines(written)).obey(told), name="obey")
        told.put_nowait(json.dumps({"id": 1, "do": "inspect"}))
        await wait_until(lambda: written.getvalue().endswith("\n"))
        obeying.cancel()
        await asyncio.gather(obeying, return_exceptions=True)
    (counts,) = json.loads(written.getvalue())["parts"].values()
    assert (counts["ended_ok"], counts["ended_error"]) == (4, 2)
    assert all(isinstance(count, int) for count in counts.values())


async def test_what_is_no_command_is_answered_with_the_reason(tmp_path: Path) -> None:
    answers = await tell(
        tmp_path,
        {"id": 7, "do": "dance"},
        {"id": 8, "do": "host"},
        {"id": 9, "do": "host", "part": PART | {"group": "nobody"}},
        "nonsense",
    )
    assert [answer["answer"] for answer in answers] == [7, 8, 9, 0]
    assert all("error" in answer for answer in answers)
    assert "the launch has no group 'nobody'" in answers[2]["error"]

"""Who is asked and what comes back; draws that do not rest on placement. Fake workers on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_api.v1 import runtime_service_pb2 as pb
from ecumene.client.runtime_model import AnswerStatus, QuestionType, SurveyQuestion
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.world import connect
from ecumene.launch.asking import interview_agent, sample_run, survey_agents

from agent_runtime.model.refusals import NodeError
from agent_runtime.node import interviews
from agent_runtime.node.sampling import mix_rows
from agent_runtime.node.surveys import SurveyQuestion as NodeQuestion
from agent_runtime.node.surveys import check_questions
from tests.unit.agent_runtime.nodes import Place, describe_moody, describe_run, make_settings, name_agents, open_served


async def test_a_survey_has_one_row_for_each_agent_that_was_asked_for(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_run(), {"g": name_agents(1200)})
        asked = [*name_agents(1000), "nobody", "agent-x"]
        questions = [SurveyQuestion("mood", "How?", QuestionType.INTEGER, minimum=0, maximum=10)]
        rows = [row async for row in node.survey("r", questions, asked)]
        assert sorted(row.agent for row in rows) == sorted(asked)
        by_status = {status: [r for r in rows if r.status is status] for status in {row.status for row in rows}}
        assert {status: len(some) for status, some in by_status.items()} == {
            AnswerStatus.OK: 1000,
            AnswerStatus.ABSENT: 2,
        }
        assert all(row.answers == {"mood": 7} and row.group == "g" for row in by_status[AnswerStatus.OK])


async def test_an_agent_that_does_not_answer_in_time_has_a_row_too(
    tmp_path: Path, home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interviews, "GRACE_S", 0.1)
    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_moody("hangs"), {"g": ["a", "b"]})
        rows = [row async for row in node.survey("r", [SurveyQuestion("q", "?")], ["a", "b"], timeout_s=0.2)]
        assert {row.status for row in rows} == {AnswerStatus.TIMEOUT}


async def test_a_sample_is_the_same_however_the_run_is_placed(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as one, connect(*home) as world:
        document = describe_run(parts=4)
        await one.launch(document, {"g": name_agents(200)})
        alone = await sample_run(world, "r", 30, seed=5)
        other = await sample_run(world, "r", 30, seed=6)
        async with open_served(make_settings(home, tmp_path, "b")) as two:
            await one.stub.Stop(pb.StopRequest(run="r"))
            # At once: what nobody hosts a node takes by itself, when it looks.
            await asyncio.gather(
                one.launch(document, {}, hosted=["g.0", "g.2"]), two.launch(document, {}, hosted=["g.1", "g.3"])
            )
            spread = await sample_run(world, "r", 30, seed=5)
            agents = [drawn.agent for drawn in spread]
            rows = [row async for row in survey_agents(world, "r", [SurveyQuestion("mood", "?")], [*agents, "nobody"])]
            assert [(row.agent, row.status) for row in rows if row.status is not AnswerStatus.OK] == [
                ("nobody", AnswerStatus.ABSENT)
            ]
            assert {row.agent for row in rows} == {*agents, "nobody"}
            assert (await interview_agent(world, "r", "agent-199", "Well?")).text == "agent-199 heard: Well?"
    assert alone == spread != other
    assert len({drawn.agent for drawn in alone}) == 30


def test_priorities_of_different_agents_differ() -> None:
    rows = np.arange(100_000, dtype=np.uint64)
    drawn = np.concatenate([mix_rows(3, group, rows) for group in range(3)])
    assert len(np.unique(drawn)) == 300_000


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "2x"}, "questions"),
        ({"text": " "}, "is empty"),
        ({"text": "x" * 5000}, "question_text_bytes_max"),
        ({"kind": "choice"}, "choices"),
        ({"kind": "choice", "choices": ("a", "a")}, "choices"),
        ({"kind": "choice", "choices": ("a", "b" * 300)}, "choice_bytes_max"),
        ({"choices": ("a", "b")}, "is for choices"),
        ({"minimum": 1.0}, "is for numbers"),
        ({"kind": "number", "minimum": 2.0, "maximum": 1.0}, "lies above"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(wrong: dict[str, Any], why: str) -> None:
    question: dict[str, Any] = {"name": "q", "text": "?", "kind": "text", **wrong}
    with pytest.raises(NodeError, match=why):
        check_questions([NodeQuestion(**question)])

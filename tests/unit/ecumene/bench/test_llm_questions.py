"""Both sides of `bench llm` ask the same: byte for byte what a runtime's agent sends, the bare load generator sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.bench.llm_questions import Asked, Questions
from ecumene.bench.llm_sides import write_launch
from pydantic_core import to_json

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.load_asker import LoadAsker
from agent_runtime.llm import ModelRequest, SchemaMode
from agent_runtime.llm.providers.chat_bodies import write_request
from agent_runtime.settings import load_launch


@pytest.mark.parametrize("is_shaped", [True, False])
def test_the_gateway_and_the_bare_load_generator_send_the_same_bytes(tmp_path: Path, is_shaped: bool) -> None:
    asked = Asked("http://127.0.0.1:1/v1", "m", is_shaped=is_shaped, tokens_max=48)
    launch = load_launch(write_launch(asked, tmp_path))
    (group,) = launch.groups
    asker = LoadAsker("asker", {}, GroupInfo(group.name, group.parameters, 0))
    settings = launch.models["asked"]
    for number in (0, 12_345):
        request = ModelRequest(
            "asker",
            1,
            number,
            settings.model,
            asker.build_messages(number),
            asker.answer_type,
            settings.temperature,
            settings.max_tokens,
        )
        mode = SchemaMode.JSON_SCHEMA if is_shaped else SchemaMode.TEXT
        sent = write_request(request, mode, settings.max_tokens_field)
        assert sent == to_json(Questions(asked).build(number))


def test_no_two_questions_are_the_same_and_what_they_share_stands_first() -> None:
    questions = Questions(Asked("", "m"))
    bodies: list[dict[str, Any]] = [questions.build(number) for number in range(100)]
    assert len({json.dumps(body) for body in bodies}) == 100
    assert len({body["messages"][0]["content"] for body in bodies}) == 1

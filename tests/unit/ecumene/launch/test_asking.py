"""Surveys over nodes of which some do not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Self, cast

import pytest
from ecumene.client.errors import ConnectionFailedError, UnavailableError
from ecumene.client.runtime_model import AnswerStatus, NodeRecord, Question, SurveyRow
from ecumene.client.world import World
from ecumene.launch import asking


class Node:
    """Answers for one agent, or not at all."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def survey(self, *_: Any, timeout_s: float) -> AsyncIterator[SurveyRow]:
        if self._address == "silent":
            raise ConnectionFailedError(self._address, 1.0, UnavailableError())
        yield SurveyRow("ann", "g", AnswerStatus.OK, "", {"q": 1})
        yield SurveyRow("bob", "", AnswerStatus.ABSENT, "not here", {})


@pytest.mark.parametrize(("addresses", "status"), [(["a"], "ABSENT"), (["a", "silent"], "ERROR")])
async def test_who_may_live_on_a_node_that_was_not_reached_is_not_told_to_be_absent(
    monkeypatch: pytest.MonkeyPatch, addresses: Sequence[str], status: str
) -> None:
    async def list_nodes(_: World) -> list[NodeRecord]:
        return [NodeRecord(address, address, {}) for address in addresses]

    monkeypatch.setattr(asking, "list_nodes", list_nodes)
    monkeypatch.setattr(asking, "RuntimeNode", Node)
    asked = asking.survey_agents(cast(World, None), "r", [Question("q", "?")], ["ann", "bob"])
    rows = {row.agent: row async for row in asked}
    assert rows["ann"].status is AnswerStatus.OK
    assert rows["bob"].status is AnswerStatus[status]
    assert ("silent did not" in rows["bob"].reason) == (status == "ERROR")

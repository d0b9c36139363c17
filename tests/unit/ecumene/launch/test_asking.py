"""Surveys over nodes of which some do not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from ecumene.client.errors import ConnectionFailedError, UnavailableError
from ecumene.client.runtime_errors import AgentNotFoundError
from ecumene.client.runtime_model import AnswerStatus, NodeRecord, Sampled, SurveyQuestion, SurveyRow
from ecumene.client.world import World
from ecumene.launch import asking, node_runs


class Node:
    """Answers for one agent, or not at all."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def sample_agents(self, run: str, count: int, **_: Any) -> list[Sampled]:
        self._check()
        return [Sampled("ann", "g", 1)]

    async def interview(self, *_: Any, **__: Any) -> None:
        self._check()
        raise AgentNotFoundError("not here")

    def _check(self) -> None:
        if self._address == "silent":
            raise ConnectionFailedError(self._address, 1.0, UnavailableError())

    async def survey(self, *_: Any, timeout_s: float) -> AsyncIterator[SurveyRow]:
        self._check()
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
    asked = asking.survey_agents(cast(World, None), "r", [SurveyQuestion("q", "?")], ["ann", "bob"])
    rows = {row.agent: row async for row in asked}
    assert rows["ann"].status is AnswerStatus.OK
    assert rows["bob"].status is AnswerStatus[status]
    assert ("silent did not" in rows["bob"].reason) == (status == "ERROR")


@pytest.mark.parametrize("addresses", [["a", "silent"], ["silent", "a"]])
async def test_what_a_node_that_was_not_reached_may_know_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, addresses: Sequence[str]
) -> None:
    async def list_nodes(_: World) -> list[NodeRecord]:
        return [NodeRecord(address, address, {}) for address in addresses]

    monkeypatch.setattr(node_runs, "list_nodes", list_nodes)
    monkeypatch.setattr(node_runs, "RuntimeNode", Node)
    with pytest.raises(ConnectionFailedError):
        await asking.sample_run(cast(World, None), "r", 3)
    world = cast(World, SimpleNamespace(name="main"))
    with pytest.raises(ConnectionFailedError):
        await asking.interview_agent(world, "r", "ann", "?")
    addresses = ["a"]
    assert [one.agent for one in await asking.sample_run(world, "r", 3)] == ["ann"]
    with pytest.raises(AgentNotFoundError):
        await asking.interview_agent(world, "r", "ann", "?")

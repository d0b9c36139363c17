"""Asking the agents of a run, wherever they live: one of them anything, a sample of them typed questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ecumene.client.errors import ConnectionFailedError
from ecumene.client.runtime_errors import RunNotFoundError
from ecumene.client.runtime_model import AnswerStatus, Interview, NodeRecord, Sampled, SurveyQuestion, SurveyRow
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.world import World
from ecumene.launch.node_runs import ask_each, list_nodes, use_host


async def interview_agent(world: World, run: str, agent: str, question: str, *, timeout_s: float = 120.0) -> Interview:
    """Ask an agent anything, on whichever node it lives.

    Raises:
        AgentNotFoundError: it lives on none.
        RunNotFoundError: no node hosts the run.
    """
    return await use_host(
        world, run, lambda node: node.interview(run, agent, question, timeout_s=timeout_s), agent=agent
    )


async def sample_run(world: World, run: str, count: int, *, seed: int = 0, groups: Sequence[str] = ()) -> list[Sampled]:
    """Draw agents of a run: the same for a seed, however they are placed.

    Raises:
        RunNotFoundError: no node hosts the run.
        ConnectionFailedError: a node cannot be reached, whose agents would be missing.
    """
    answers = await ask_each(
        world,
        lambda node: node.sample_agents(run, count, seed=seed, groups=groups),
        absent=RunNotFoundError,
        needs_all=True,
    )
    if not any(answer is not None for answer in answers):
        raise RunNotFoundError(f"no node of world {world.name} hosts a run {run!r}")
    drawn = [one for answer in answers if answer is not None for one in answer]
    return sorted(drawn, key=lambda one: one.priority)[:count]


async def survey_agents(
    world: World, run: str, questions: Sequence[SurveyQuestion], agents: Sequence[str], *, timeout_s: float = 120.0
) -> AsyncIterator[SurveyRow]:
    """Ask agents typed questions, wherever they live; exactly one row an agent, as they are answered.

    Raises:
        RunNotFoundError: no node hosts the run.
        InvalidArgumentError: a question cannot be asked.
    """
    rows: asyncio.Queue[SurveyRow | None] = asyncio.Queue()
    records = await list_nodes(world)
    left = dict.fromkeys(agents)

    unreached: list[str] = []

    async def ask(record: NodeRecord) -> bool:
        """Whether the node hosts the run."""
        async with RuntimeNode(record.address) as node:
            try:
                async for row in node.survey(run, questions, agents, timeout_s=timeout_s):
                    await rows.put(row)
            except RunNotFoundError:
                return False
            except ConnectionFailedError:
                unreached.append(record.name)
                return False
            finally:
                await rows.put(None)
        return True

    asking = [asyncio.create_task(ask(record), name=f"survey on {record.name}") for record in records]
    try:
        ended = 0
        while ended < len(asking):
            row = await rows.get()
            if row is None:
                ended += 1
            elif row.status is not AnswerStatus.ABSENT and row.agent in left:
                del left[row.agent]
                yield row
        if not any([await task for task in asking]):
            raise RunNotFoundError(f"no node of world {world.name} hosts a run {run!r}")
        status, reason = AnswerStatus.ABSENT, "no such agent lives on any node"
        if unreached:
            # Whether it lives there is not known.
            status, reason = AnswerStatus.ERROR, f"not on those that answered; {', '.join(unreached)} did not"
        for agent in left:
            yield SurveyRow(agent, "", status, reason, {})
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

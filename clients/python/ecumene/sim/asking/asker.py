"""Asks what stands at a moment of a run, and records each answer once, however often the run is gone on with.

    round over ──► who is to be asked ─ who was ──► their node: a copy of each agent answers ──► part files

Agents are asked in copies of their state: what they say changes neither them nor the world, so that a run is the same
run with its surveys and without. A model is asked through the same limits and budgets as in turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ecumene.client.runtime_model import AnswerStatus
from ecumene.client.world import World
from ecumene.launch.asking import survey_agents
from ecumene.sim.asking.plans import Asking, Moment
from ecumene.sim.asking.recording import UNSUPPORTED, SurveyRecorder, list_asked
from ecumene.sim.populations.population import Population

AGENTS_AT_A_TIME = 10_000
ASKED = {"survey": "survey", "interview": "interviews"}


class Asker:
    """For one life of a run."""

    def __init__(
        self,
        world: World,
        population: Population,
        askings: Sequence[Asking],
        *,
        run: str,
        seed: int,
        directory: Path,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` takes a line for people."""
        self._world = world
        self._population = population
        self._askings = askings
        self._run = run
        self._seed = seed
        self._directory = directory
        self._tell = tell

    async def ask(self, moment: Moment) -> None:
        """Ask all that stands at a moment, and has not been asked. Every agent that is asked has its rows.

        Raises:
            EcumeneError: no node hosts the run, or a node or the world cannot be reached.
            OSError: the disk.
        """
        due = [asking for asking in self._askings if asking.takes_place(moment)]
        if not due:
            return
        done = list_asked(self._directory)
        for asking in due:
            agents = asking.choose_agents(self._population, self._seed, moment)
            left = [one for one in agents if (asking.name, moment.when, moment.round, one) not in done]
            if left:
                await self._ask(asking, moment, left)

    async def _ask(self, asking: Asking, moment: Moment, agents: Sequence[str]) -> None:
        what = f"{ASKED[asking.kind]} {asking.name}, {moment}"
        self._tell(f"{what}: asking {_count(len(agents))}")
        statuses: Counter[str] = Counter()
        async with SurveyRecorder(self._directory, run=self._run) as recorder:
            for some in _cut(agents, AGENTS_AT_A_TIME):
                rows = survey_agents(self._world, self._run, asking.questions, some, timeout_s=asking.spec.timeout_s)
                async for row in rows:
                    recorder.add(asking, moment, row)
                    statuses[UNSUPPORTED if row.status is AnswerStatus.RULE else row.status.name.lower()] += 1
        self._tell(f"{what}: {describe_answers(statuses)}")


def describe_answers(statuses: Counter[str]) -> str:
    """How many answered, and what became of the others."""
    answered, total = statuses["ok"], statuses.total()
    rest = [f"{count:,} {status}" for status, count in sorted(statuses.items()) if status != "ok"]
    return f"{answered:,} of {_count(total)} answered" + (f"; {', '.join(rest)}" if rest else "")


def _count(agents: int) -> str:
    return "1 agent" if agents == 1 else f"{agents:,} agents"


def _cut(agents: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(agents), count):
        yield agents[start : start + count]

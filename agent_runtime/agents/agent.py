"""What an agent is to a runtime: a class with one method.

    class Miner(Agent):
        async def on_event(self, event, turn):
            answer = await turn.llm.ask([Message("user", "Dig?")], answer_type=Decision)
            turn.act("dig", "/mine", self.id, answer.value.depth)

The class is installed on the node and named in the launch description. One object an agent is made when
it is first woken. Rule-based agents that all decide alike are cheaper as `RuleAgents`: one object for the
whole group, and no object an agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_runtime.agents.memory import Memory

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.model.errors import ActionRefusedError
    from agent_runtime.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """What the agents of a group share. `seed`: everything random must follow from it, agent and turn."""

    name: str
    parameters: Mapping[str, Any]
    seed: int


class Agent:
    """One agent. Subclasses implement `on_event`; objects are made in the worker, one an agent woken.

    Of an agent only its `memory` is kept: after a restart, or where another worker has taken its part over, it is a new
    object with the same profile and memory. What else it had set on itself (`self.count += 1`) is gone then: it belongs
    into `memory.keep_fact`, or into the world.
    """

    def __init__(self, agent_id: str, profile: Mapping[str, Any], group: GroupInfo) -> None:
        """`profile` holds the attributes of the agent's row. Raise nothing but for a broken profile:
        what is wrong with the parameters of a group, `check_group` says before anyone is woken."""
        self.id = agent_id
        self.profile = profile
        self.group = group
        self.memory = Memory()

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        """Raises ValueError, in one line, if no agent can live with these parameters."""

    def plan(self, turn: Turn) -> None:
        """Ask for the wakes of a routine: first of all in each turn of an agent that lives by a clock.

        Also where a person sits in its place, or it is muted and was to be woken, so that it goes on afterwards.
        """

    async def on_event(self, event: Event, turn: Turn) -> None:
        """One turn: read, ask, decide, `turn.act`. Nothing is sent before it returns, then all at once.

        `event` is the first of `turn.events`. Whatever is raised ends this turn alone: a ModelError with
        its own status, anything else as `error`.
        """
        raise NotImplementedError

    async def on_refused(self, event: Event, turn: Turn, refusal: ActionRefusedError) -> bool:
        """Decide again, once a turn, after what was decided cannot be done; `refusal.problem` says why.

        Nothing has happened in the world, and `turn.actions` is empty again. True: what stands in the turn now is tried
        instead. False, or refused again: the turn falls back.
        """
        return False

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        """Act without a model after a turn failed, and return True: the turn then ends as `fallback`.

        What the turn had decided before is forgotten. False: there is no fallback, the failure stands.
        """
        return False


@dataclass(frozen=True, slots=True)
class Routine:
    """What rule agents do when their time has come, in columns: one element an agent, in their order.

    Attributes:
        next_ns: when each is to be woken next, later than it was woken now; NEVER_NS, or None = not again.
        values, path: its entry there, under its id, is set to its number; None in place of a number: it does nothing.
        positions: where that entry is placed at the same time, in the space of the environment: one or two coordinates;
            of one that does nothing they are not read.
    """

    next_ns: Sequence[int | None] | None
    values: Sequence[float | None] | None = None
    path: str = ""
    positions: Sequence[Sequence[float]] | None = None


class RuleAgents:
    """A group of agents whose numbers follow from a rule; decided many at a time.

    Each has its own turn, with its own record, status and producer, all the same; it reports one number
    to whatever the waking event asks reports for, and follows a routine where its group lives by a clock.
    """

    def __init__(self, group: GroupInfo) -> None:
        """Raises ValueError, in one line, if no agent can live with these parameters."""
        self.group = group

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        """The number of each agent, in their order. A number must not depend on who else is asked.

        When it raises, each agent is asked alone, so that only those fail who must.
        """
        raise NotImplementedError

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Routine:
        """What agents do whose time has come, and when they are to be woken next; `times_ns` when each was to be woken.

        It must not depend on who else is asked, and be the same when it is asked again. Where it raises, each agent is
        asked alone; one that fails then is not woken again.
        """
        raise NotImplementedError

    def first_wakes(self, agent_ids: Sequence[str], first_ns: int) -> Sequence[int | None]:
        """When each is woken for the first time, where the group's `first_wake_ns` is `first_ns`: all of them then.

        NEVER_NS, or None = not by the clock.
        """
        return [first_ns] * len(agent_ids)

    def fall_back(self, agent_id: str, event: Event, failure: Exception) -> float | None:
        """A number in place of one that could not be had or is none; the agent's turn then ends as `fallback`.

        None: there is no fallback, the failure stands.
        """
        return None

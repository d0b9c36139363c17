"""What all turns of one part share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecumene.client import World

from agent_runtime.actions.outbox import Outbox
from agent_runtime.actions.places import KnownPlaces
from agent_runtime.agents.agent import GroupInfo
from agent_runtime.gateways.models import Model, ModelChoice
from agent_runtime.model.clock import Clock
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.ownership.agent_states import AgentStates
from agent_runtime.ownership.history import History
from agent_runtime.settings import GroupSpec
from agent_runtime.turns.part_records import PartRecords
from agent_runtime.turns.part_wakes import PartWakes
from agent_runtime.turns.presence import Presence
from agent_runtime.turns.threads import AgentThreads

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class PartContext:
    """Where the turns of a part are done: the stages that they pass, and what its group is.

    Attributes:
        world: for reads; what is written goes through the outbox, behind the part's fence.
        states: where agents' memories are kept; None = nowhere.
        wakes: when its agents want to be woken; None: the group lives by no clock.
        history: turns that the agents have had before, in another worker or another life of this one; None = none.
    """

    spec: GroupSpec
    group: GroupInfo
    world: World
    models: ModelChoice
    places: KnownPlaces
    outbox: Outbox
    records: PartRecords
    clock: Clock
    tasks: OwnedTasks
    notices_waiting_max: int
    states: AgentStates | None = None
    history: History | None = None
    presence: Presence = field(default_factory=Presence)
    incidents: Incidents = field(default_factory=Incidents)
    threads: AgentThreads = field(default_factory=AgentThreads)
    wakes: PartWakes | None = None

    @property
    def is_taken_over(self) -> bool:
        """Whether turns that are taken now may have been taken before, by somebody else."""
        return self.history is not None and not self.history.is_over

    def find_model(self, turn: Turn) -> Model | None:
        """The model that the agent of a turn asks. Raises ModelSetupError if its group's mix has none for it."""
        return self.models.find(turn.agent_id, turn.profile)

"""What all turns of one group in one worker share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecumene.client import World

from agent_runtime.actions.outbox import Outbox
from agent_runtime.actions.validation import KnownPlaces
from agent_runtime.agents.agent import GroupInfo
from agent_runtime.model.clock import Clock
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.settings import GroupSpec
from agent_runtime.turns.gateways import Model, ModelChoice
from agent_runtime.turns.ledger import Ledger

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the turns of a group are done: the stages that they pass, and what the group is."""

    spec: GroupSpec
    group: GroupInfo
    world: World
    models: ModelChoice
    places: KnownPlaces
    outbox: Outbox
    ledger: Ledger
    clock: Clock
    tasks: OwnedTasks
    notices_waiting_max: int

    def find_model(self, turn: Turn) -> Model | None:
        """The model that the agent of a turn asks. Raises ModelSetupError if its group's mix has none for it."""
        return self.models.find(turn.agent_id, turn.profile)

"""What a listener hears."""

import json
from dataclasses import dataclass
from typing import Any

from env_server.model.changes import EventType
from env_server.model.spaces import Position
from env_server.model.values import Json, Nothing, Value


@dataclass(frozen=True, slots=True)
class Event:
    """One change of the world, as it was recorded."""

    id: str
    """"world/revision.index", unique in a history."""
    revision: int
    index: int
    """Its place within the revision."""
    type: EventType
    path: str
    key: str
    """Of the entry; empty for events of the environment itself; the name of a gate, aggregate or behaviour's event."""
    stored: Value | Nothing
    """The value as it is stored."""
    version: int
    actor: str
    cause: str
    depth: int
    """How many listeners led to it, one after the other; 0 = none."""
    position: Position = ()
    """Where a move led; () = out of the space, or it is no move."""
    sim_time_ns: int | None = None
    """When it happened, by the nearest clock; None = there was none. `Context.sim_time_ns` tells what it is now."""

    @property
    def value(self) -> Any:
        """The value, JSON parsed anew; None also when there is none."""
        if isinstance(self.stored, Json):
            return json.loads(self.stored.text)
        return None if isinstance(self.stored, Nothing) else self.stored

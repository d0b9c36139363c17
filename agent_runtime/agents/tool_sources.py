"""Which operations of which environments an agent's model may call, as a launch description says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

AGENT = "{agent}"
"""In place of a value: the id of the agent."""


class ToolSource(BaseModel):
    """The operations of one environment.

    Attributes:
        path: of the environment; `{agent}` in it stands for the agent's id.
        only: names of operations; empty = all.
        bind: arguments that are given for the model, which does not see them, to all operations that take them: who an
            agent is, for instance, is not for its model to say. `{agent}` stands for the agent's id.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(min_length=1)]
    only: tuple[str, ...] = ()
    bind: Mapping[str, Any] = {}

    @classmethod
    def read(cls, source: ToolSource | str | Mapping[str, Any]) -> ToolSource:
        """A source, or one made of its path or its document. Raises ValueError."""
        if isinstance(source, ToolSource):
            return source
        return cls(path=source) if isinstance(source, str) else cls.model_validate(source)

    def path_of(self, agent_id: str) -> str:
        """Its path for one agent."""
        return self.path.replace(AGENT, agent_id)

    def bound_of(self, agent_id: str) -> dict[str, Any]:
        """Its bound arguments for one agent."""
        return {name: agent_id if value == AGENT else value for name, value in self.bind.items()}

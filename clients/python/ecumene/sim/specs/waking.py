"""What wakes the agents of a group, beside the rounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ecumene.sim.specs.section import Section


class WakeSpec(Section):
    """Events that wake agents.

    Attributes:
        path: of their environment; `*` stands for any one name, `**` for any number of names.
        key: of their entry, likewise; `{agent}`: each event wakes the agent that is its key.
        types: such as `entry_set`, `entry_moved`, `stream_appended`, `timer_fired`, `behaviour`; none = all.
    """

    path: Annotated[str, Field(pattern=r"^/", max_length=500)]
    key: Annotated[str, Field(min_length=1, max_length=200)] = "*"
    types: Annotated[tuple[str, ...], Field(max_length=50)] = ()

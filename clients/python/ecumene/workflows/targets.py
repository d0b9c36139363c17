"""Actors as a caller knows them: where they live, and how they could be made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ecumene.workflows.errors import Failure
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.values import Tree


@dataclass(slots=True)
class Maker:
    """What makes an actor again when its host is lost."""

    inner: Tree
    placeholders: list[Placeholder]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Target:
    """One actor."""

    actor: str
    host: str
    """The place of its host; another one when it was made again."""
    class_name: str
    cls: type | None
    """None where the class is not installed."""
    retry: int = 0
    timeout_s: float | None = None
    maker: Maker | None = None
    """Known to the caller that made it with `retry`."""
    made: int = 0
    """How often it was made again."""
    failure: Failure | None = None
    """Why it can no longer be called."""


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host that is there."""

    name: str
    place: str
    created_revision: int
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Actors that it takes."""
        found = self.details.get("actors_max", 0)
        return found if isinstance(found, int) else 0

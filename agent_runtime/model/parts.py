"""Parts: the pieces of groups that workers own, and how they are cut."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A piece of a group that one worker owns: rows [first, end) of the group's agents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: str
    number: Annotated[int, Field(ge=0)]
    first: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]

    @property
    def name(self) -> str:
        """Its key in the world."""
        return f"{self.group}.{self.number}"

    def __len__(self) -> int:
        return self.end - self.first


def split_evenly(rows: int, parts: int) -> list[tuple[int, int]]:
    """Bounds of `parts` consecutive shares."""
    bounds = [rows * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(bounds))

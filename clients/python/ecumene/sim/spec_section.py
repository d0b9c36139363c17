"""What all parts of a spec have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a spec: immutable, and a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

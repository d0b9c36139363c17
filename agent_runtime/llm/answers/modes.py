"""Which ways of asking for a shape an endpoint accepts."""

from __future__ import annotations

from pydantic import BaseModel

from agent_runtime.llm.requests import ModelRequest, SchemaMode

KNOWN_MAX = 1_024
LADDER = (SchemaMode.JSON_SCHEMA, SchemaMode.JSON_OBJECT, SchemaMode.PROMPT)


class ModeMemory:
    """Which schema mode an endpoint accepts, by model and answer type.

    Learned from real requests: the first mode that works is kept, so no call is spent on probing and
    nobody waits for a probe. Until then each request tries the ladder from the top. One endpoint may
    accept one type and refuse another (a keyword its grammar lacks), hence the key.
    """

    def __init__(self) -> None:
        self._accepted: dict[tuple[str, type[BaseModel]], SchemaMode] = {}
        """In the order in which they were learned."""

    def candidates(self, request: ModelRequest) -> tuple[SchemaMode, ...]:
        """Returns the modes worth trying, the strictest first."""
        if request.answer_type is None:
            return (SchemaMode.TEXT,)
        accepted = self._accepted.get((request.model, request.answer_type))
        return LADDER if accepted is None else (accepted,)

    def remember(self, request: ModelRequest, mode: SchemaMode) -> None:
        """Keeps `mode` for the model and answer type of `request`; the first one told stays."""
        if request.answer_type is None:
            return
        self._accepted.setdefault((request.model, request.answer_type), mode)
        if len(self._accepted) > KNOWN_MAX:
            # Of a type that is asked for again it is learned again.
            del self._accepted[next(iter(self._accepted))]

    def accepted(self) -> dict[str, SchemaMode]:
        """Returns what has been learned, as `model/TypeName` → mode, for records."""
        return {f"{model}/{kind.__name__}": mode for (model, kind), mode in self._accepted.items()}

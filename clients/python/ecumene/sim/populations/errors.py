"""What a population cannot be made of."""

from __future__ import annotations

from ecumene.client.errors import EcumeneError


class PopulationError(EcumeneError):
    """A population cannot be drawn as its spec says. `path`: the field, such as `population.tables[0].file`."""

    exit_code = 2

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"population.{path}: {problem}")
        self.path = f"population.{path}"

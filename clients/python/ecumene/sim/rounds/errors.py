"""Why an experiment of one's own cannot be conducted."""

from __future__ import annotations

from ecumene.client.errors import EcumeneError


class ExperimentError(EcumeneError):
    """A world, or a behaviour in it, that does not do what its experiment needs; the message says which and what."""

    def __init__(self, path: str, problem: str, hint: str = "") -> None:
        self.path = path
        self.hint = hint
        """What to do, for a terminal."""
        super().__init__(f"{path}: {problem}")


class RefusedRoundError(ExperimentError):
    """An operation refused a round, or wrote what no world takes: the outcome, however often it is asked."""

    can_resume = False

    def __init__(self, path: str, operation: str, cause: EcumeneError) -> None:
        hint = "mend the behaviour and begin the run anew: a refusal is kept, so that this one cannot go on"
        super().__init__(path, f"{operation} is refused: {cause}", hint)

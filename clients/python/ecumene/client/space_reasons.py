"""One exception for each reason of the contract that has to do with space."""

from __future__ import annotations

from ecumene.client.errors import (
    AlreadyExistsError,
    ErrorDetails,
    Executed,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    WrongStateError,
)


class InvalidPositionError(InvalidArgumentError):
    """Outside the space, of another number of dimensions, or no cell or node of it."""

    @classmethod
    def of(cls, why: str) -> InvalidPositionError:
        """The error for a position that the SDK refuses before it is sent."""
        return cls(ErrorDetails(message=why, reason="INVALID_POSITION", executed=Executed.NO))


class SpaceNotFoundError(NotFoundError):
    """The environment has no space."""

    def describe(self) -> str:
        """Tells that the environment is there, and what it lacks."""
        return f"no such space: {self.path} has none" if self.path else super().describe()


class RegionNotFoundError(NotFoundError):
    """The space has no region, or no proximity, of that name."""

    @property
    def name(self) -> str:
        """The name asked for."""
        return self.metadata.get("region") or self.metadata.get("proximity", "")


class SpaceExistsError(AlreadyExistsError):
    """The environment has a space already; its shape stays."""


class CellFullError(WrongStateError):
    """The cell or node holds as many entries as it may; nothing moved."""

    @property
    def key(self) -> str:
        """Key of the entry that was to go there."""
        return self.metadata.get("key", "")

    @property
    def capacity(self) -> int:
        """Entries that it may hold."""
        return self.number("capacity")


class NotPlacedError(WrongStateError):
    """The entry is nowhere: it has no position."""

    @property
    def key(self) -> str:
        """Key of the entry."""
        return self.metadata.get("key", "")


class UnreachableError(OutOfRangeError):
    """No way leads from the one node of the graph to the other."""

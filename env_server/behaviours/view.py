"""The world as operations and listeners read it, wherever it comes from."""

from collections.abc import Mapping
from typing import Protocol

from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import AggregateValue, EnvironmentState
from env_server.model.operations import Nearby


class View(Protocol):
    """The world as an operation reads it."""

    def entry(self, path: str, key: str) -> Entry | None:
        """The entry, None when it or its environment is absent."""

    def entries(self, path: str) -> Mapping[str, Entry]:
        """A snapshot of all entries of an environment; empty when it is absent."""

    def environment(self, path: str) -> EnvironmentState | None:
        """The environment."""

    def aggregates(self, path: str) -> dict[str, AggregateValue]:
        """The environment's aggregates by name."""

    def items(self, path: str, key: str, from_sequence: int, limit: int) -> list[StreamItem]:
        """Items of a stream from a sequence number on, at most `limit` (0 = all); none when it is absent."""

    def time(self, path: str) -> int | None:
        """What the nearest clock of an environment shows, in nanoseconds; None = there is none."""

    def near(self, path: str, key: str, asked: Nearby) -> list[str]:
        """Keys of the entries near the entry of `key`, or near a position, as `asked`.

        Raises:
            WorldError: as a client's question.
        """

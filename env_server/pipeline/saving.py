"""Saving rounds: what the state tables lack, in chunks that ride along with commits (see state_tree.unsaved)."""

from collections.abc import Iterator

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.limits import Limits
from env_server.model.ports import StateChunk
from env_server.state_tree.tree import Tree


class Saving:
    """Decides when a round begins and hands out its chunks."""

    def __init__(
        self, tree: Tree, producers: Producers, sessions: Sessions, limits: Limits, changes_unsaved: int = 0
    ) -> None:
        """`changes_unsaved` counts those that recovery has replayed."""
        self._tree = tree
        self._producers = producers
        self._sessions = sessions
        self._round_every = limits.replay_ops_max // 2
        self._changes_since = changes_unsaved
        self._round: Iterator[StateChunk] | None = None

    def next_chunk(self, changes: int, number: int) -> StateChunk | None:
        """What goes with commit group `number`, which holds that many changes; None = nothing."""
        if self._round is None:
            if self._changes_since < self._round_every:
                self._changes_since += changes
                return None
            # The group itself is not sealed yet: what it holds counts as unsaved after this round too.
            self._changes_since = changes
            self._round = self._chunks(number - 1)
        else:
            self._changes_since += changes
        chunk = next(self._round, None)
        if chunk is None:
            self._round = None
        return chunk

    def everything(self, number: int) -> Iterator[StateChunk]:
        """All chunks that complete the tables through record `number`, for a clean stop."""
        if self._round is not None:
            yield from self._round
            self._round = None
        yield from self._chunks(number)
        self._changes_since = 0

    def _chunks(self, through: int) -> Iterator[StateChunk]:
        yield from self._tree.unsaved.round()
        for marks in self._producers.round():
            yield _EMPTY._replace(producers=marks)
        yield _EMPTY._replace(sessions=self._sessions.round(), applied_through=through)


_EMPTY = StateChunk({}, {}, {}, {}, {}, (), None)

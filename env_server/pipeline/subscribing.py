"""Subscriptions as part of a world: their ops among its effects, their cursors on its history."""

from collections.abc import Callable

from env_server.events.filters import Matcher
from env_server.events.watches import WatchHub
from env_server.model.changes import EventType, FactKind
from env_server.model.limits import Limits
from env_server.model.operations import Code
from env_server.model.ports import Clock
from env_server.model.subscriptions import CreateSubscription
from env_server.model.values import Json
from env_server.model.watching import WatchSpec
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.commits.log_holds import LogHold
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.own_changes import OwnChanges
from env_server.state_tree.tree import Tree
from env_server.subscriptions.consumer import Cursor
from env_server.subscriptions.subscriptions import Subscriptions


def open_subscriptions(
    tree: Tree,
    log: LogHold,
    limits: Limits,
    clock: Clock,
    facts: dict[str, bytes],
    effects: Effects,
    watches: WatchHub,
    commits: Commits,
    own: OwnChanges,
) -> Subscriptions:
    """The subscriptions of a world, from their facts. From now on they hold the log."""

    def open_cursor(spec: CreateSubscription, from_revision: int) -> Cursor:
        return watches.open(WatchSpec(spec.filter, from_revision=from_revision, group=spec.group))

    subscriptions = Subscriptions(
        TreeLedger(tree),
        log,
        limits,
        clock,
        facts,
        check_filter=lambda asked: Matcher(asked, limits),
        open_cursor=open_cursor,
        touch=commits.touch,
        when_seen=commits.when_seen,
        change=lambda effect: own.make([], effect),
    )
    effects.serve(Code.CREATE_SUBSCRIPTION, subscriptions.create)
    effects.serve(Code.SEEK_SUBSCRIPTION, subscriptions.seek)
    effects.serve(Code.DELETE_SUBSCRIPTION, subscriptions.delete)
    effects.serve(Code.ACKNOWLEDGE, subscriptions.acknowledge)
    return subscriptions


class TreeLedger:
    """See subscriptions.ledger.Ledger."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    @property
    def revision(self) -> int:
        """See Ledger."""
        return self._tree.revision

    @property
    def group_number(self) -> int:
        """See Ledger."""
        return self._tree.changes.number

    @property
    def journal(self) -> list[Callable[[], None]] | None:
        """See Ledger."""
        return self._tree.journal

    def note_fact(self, kind: FactKind, key: str, value: bytes | None) -> None:
        """See Ledger."""
        self._tree.note_fact(kind, key, value)

    def tell_subscription(self, name: str, told: Json) -> None:
        """See Ledger."""
        self._tree.row(self._tree.nodes.root, EventType.SUBSCRIPTION_CHANGED, name, told, 0)

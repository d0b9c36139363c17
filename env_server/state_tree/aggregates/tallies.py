"""Tallies: the running aggregates of one environment and the count of reports of its gate's generation.

A derived effect of each change, computed in its loop step: what the entry was is taken out, what it is put in. An
entry is a report of the current generation when it was last changed, but for moves, after the generation began, so a
report that replaces another of the same generation counts once. Aggregates over children follow the children's own, see
`rollups`.
"""

from collections.abc import Iterable
from typing import Any, Final

from env_server.model.entries import Entry
from env_server.model.environments import Aggregate, AggregateValue, Function, Gate, Scope
from env_server.state_tree.aggregates.accounts import NO_SHARE, Account, Share, account_for

_NO_ROLL_UPS: Final[dict[str, "RollUp"]] = {}


class Tally:
    """Aggregates and reports of one environment."""

    __slots__ = ("_accounts", "_aggregates", "begin_revision", "changed", "lifts", "reported", "roll_ups", "target")

    def __init__(self, aggregates: tuple[Aggregate, ...], gate: Gate | None) -> None:
        self._aggregates = aggregates
        #: Entries changed after this revision are reports.
        self.begin_revision = 0
        #: Entries that are reports.
        self.reported = 0
        #: Number of reports that opens the gate; -1 = none does.
        self.target = -1
        #: Whether an aggregate changed since the flag was last cleared.
        self.changed = False
        #: Whether the parent has aggregates over its children, so that it must follow.
        self.lifts = False
        #: Aggregates over children, by name.
        self.roll_ups = _NO_ROLL_UPS
        self._accounts: dict[tuple[bool, tuple[str, ...], Function, tuple[float, ...]], Account] = {}
        for aggregate in aggregates:
            if aggregate.scope is Scope.CHILDREN:
                self.roll_ups = {**self.roll_ups, aggregate.name: RollUp(aggregate)}
            else:
                self._accounts.setdefault(_account_key(aggregate), account_for(aggregate))
        if gate is not None:
            self.begin_revision = gate.begin_revision
            self.aim(gate)

    def aim(self, gate: Gate) -> None:
        """Takes over when the gate opens by count."""
        self.target = gate.count_target if gate.collecting and gate.count_target else -1

    def next_generation(self, gate: Gate) -> "Tally":
        """The tally at the begin of a generation: no report yet; what covers all entries goes on, shared."""
        tally = Tally(self._aggregates, gate)
        for key, account in self._accounts.items():
            if not key[0]:
                tally._accounts[key] = account
        tally.roll_ups = self.roll_ups
        # What an aggregate of the generation covered is covered no more.
        tally.changed = self.changed or any(key[0] and account.entries for key, account in self._accounts.items())
        tally.lifts = self.lifts
        return tally

    def change(self, old: Entry | None, new: Entry | None) -> None:
        """Takes `old` out and puts `new` in; None = there was, or is, no entry."""
        begin = self.begin_revision
        was = old is not None and (old[7] or old[3]) > begin
        now = new is not None and (new[7] or new[3]) > begin
        if now is not was:
            self.reported += 1 if now else -1
        for key, account in self._accounts.items():
            if key[0]:
                account.change(old if was else None, new if now else None)
            else:
                account.change(old, new)
            self.changed = True

    def scan(self, entries: Iterable[Entry]) -> None:
        """Counts entries that were there before the tally."""
        for entry in entries:
            self.change(None, entry)
        self.changed = False

    def values(self, names: tuple[str, ...] = ()) -> list[AggregateValue]:
        """The aggregates named, all when none is; unknown names are left out."""
        return [
            self._account(aggregate).value(aggregate)
            for aggregate in self._aggregates
            if not names or aggregate.name in names
        ]

    def containers(self) -> list[Any]:
        """What may hold as much as there are entries or children; for taking a tally apart that is no longer needed."""
        held: list[Any] = [roll_up.shares for roll_up in self.roll_ups.values()]
        for account in (*self._accounts.values(), *(roll_up.account for roll_up in self.roll_ups.values())):
            held += account.containers()
        return held

    def share_for(self, above: Aggregate) -> Share:
        """The share in a parent's aggregate over children: of what has its name, function and bounds here."""
        for aggregate in self._aggregates:
            if aggregate.name == above.name:
                alike = aggregate.function is above.function and aggregate.bounds == above.bounds
                return self._account(aggregate).share() if alike else NO_SHARE
        return NO_SHARE

    def _account(self, aggregate: Aggregate) -> Account:
        if aggregate.scope is Scope.CHILDREN:
            return self.roll_ups[aggregate.name].account
        return self._accounts[_account_key(aggregate)]


class RollUp:
    """One aggregate over children: what each of them, by its number, has put into the account."""

    __slots__ = ("account", "aggregate", "shares")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.account = account_for(aggregate)
        self.shares: dict[int, Share] = {}

    def follow(self, number: int, tally: Tally | None) -> bool:
        """Lets the child's share be what its tally comes to, None = it has none; whether that changed anything."""
        now = NO_SHARE if tally is None else tally.share_for(self.aggregate)
        was = self.shares.get(number, NO_SHARE)
        if was == now:
            return False
        self.account.replace(was, now)
        if now is NO_SHARE:
            del self.shares[number]
        else:
            self.shares[number] = now
        return True


def _account_key(aggregate: Aggregate) -> tuple[bool, tuple[str, ...], Function, tuple[float, ...]]:
    function = Function.SUM if aggregate.function is Function.MEAN else aggregate.function
    return aggregate.in_generation, aggregate.field, function, aggregate.bounds

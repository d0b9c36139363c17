"""P11 in process: thousands of things that happen to consumers, a second, and planted bugs that must be noticed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from env_server.model.operations import Acknowledge
from env_server.subscriptions.consumer import Consumer
from env_server.subscriptions.consuming import Consuming
from env_server.subscriptions.retention import Retention
from env_server.subscriptions.subscription import Subscription
from env_server.subscriptions.subscriptions import Subscriptions
from env_server.subscriptions.terms import Terms
from tests.promises.subscription_run import SubscriptionRun

STEPS = 150
RUNS = 60
RUNS_LONG = 1000


async def run_many(seed: int, runs: int) -> tuple[int, int]:
    """So many runs; how many transactions had their effects, and how many were fenced."""
    commits = fenced = 0
    for number in range(runs):
        run = SubscriptionRun(random.Random(f"{seed}/{number}"), partitions=(1, 2, 7, 64)[number % 4])
        await run.run(STEPS)
        commits += run.commits
        fenced += run.fenced
    return commits, fenced


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("runs", [RUNS, pytest.param(RUNS_LONG, marks=pytest.mark.long)])
async def test_every_event_has_its_effects_once_and_in_order_whatever_happens(seed: int, runs: int) -> None:
    commits, fenced = await run_many(seed, runs)
    assert commits > 3 * runs
    assert 2 * fenced > runs, "nobody was late: nothing is shown"


def forget_the_term(patch: pytest.MonkeyPatch) -> None:
    """Any consumer may acknowledge under any term."""
    find = Consuming.find

    def lenient(self: Consuming, subscription: Subscription, term: int) -> Consumer:
        if term not in subscription.by_term and subscription.consumers:
            return max(subscription.consumers.values(), key=lambda consumer: consumer.delivered)
        return find(self, subscription, term)

    patch.setattr(Consuming, "find", lenient)


def skip_the_fact(patch: pytest.MonkeyPatch) -> None:
    """The cursor moves in memory alone."""

    def move(self: Subscriptions, subscription: Subscription, consumer: Consumer, revision: int) -> None:
        subscription.cursors = [
            max(cursor, revision) if partition in consumer.partitions else cursor
            for partition, cursor in enumerate(subscription.cursors)
        ]
        consumer.acknowledged = revision

    patch.setattr(Subscriptions, "_move", move)


def keep_what_failed(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement stays although its transaction was rolled back."""
    acknowledge = Subscriptions.acknowledge

    def careless(self: Subscriptions, asked: Acknowledge) -> object:
        journal = self._ledger.journal
        written = acknowledge(self, asked)
        if journal:
            journal.pop()
        return written

    patch.setattr(Subscriptions, "acknowledge", careless)


def repeat_terms(patch: pytest.MonkeyPatch) -> None:
    """A crash gives terms again that were told before."""
    begin = Terms.__init__
    patch.setattr(Terms, "__init__", lambda self, ledger, stored: begin(self, ledger, None))


def let_go_early(patch: pytest.MonkeyPatch) -> None:
    """The log lets go of what was acknowledged before that is durable."""
    moved = Retention.moved

    def early(self: Retention) -> None:
        moved(self)
        self._retain(self._find_needed())

    patch.setattr(Retention, "moved", early)


def forget_floors(patch: pytest.MonkeyPatch) -> None:
    """A consumer gets all of its partitions from the lowest of their cursors on."""
    assign = Consumer.assign

    def low(self: Consumer, term: int, partitions: tuple[int, ...], cursors: list[int]) -> None:
        lowest = min([cursors[mine] for mine in partitions], default=0)
        assign(self, term, partitions, [lowest if at in partitions else cursor for at, cursor in enumerate(cursors)])

    patch.setattr(Consumer, "assign", low)


PLANTS = [forget_the_term, skip_the_fact, keep_what_failed, repeat_terms, let_go_early, forget_floors]


PLANTS = [forget_the_term, skip_the_fact, keep_what_failed, repeat_terms, let_go_early, forget_floors]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
async def test_a_planted_bug_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception) as caught:
        await run_many(seed, 5000)  # it ends with the first that is found
    assert not isinstance(caught.value, TypeError | AttributeError), "the plant itself is at fault"

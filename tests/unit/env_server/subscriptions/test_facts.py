"""How subscriptions are stored."""

import random

from hypothesis import given
from hypothesis import strategies as st

from env_server.model.changes import Fact
from env_server.model.subscriptions import CreateSubscription
from env_server.model.watching import Filter
from env_server.subscriptions.facts import decode_subscriptions, encode_definition, encode_end, encode_share
from env_server.subscriptions.subscription import Subscription

TEXTS = st.text(max_size=8)
FILTERS = st.builds(
    Filter,
    path_prefix=TEXTS,
    path_glob=TEXTS,
    key_glob=TEXTS,
    types=st.frozensets(st.integers(1, 25)),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    actor=TEXTS,
    excluded_producer=TEXTS,
)
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: "/" not in name)


def store(*subscriptions: Subscription) -> dict[str, bytes]:
    facts: dict[str, bytes | None] = {}
    for one in subscriptions:
        for fact in (encode_definition(one), *[encode_share(one, share) for share in range(8)]):
            facts[fact.key] = fact.value
    return {key: value for key, value in facts.items() if value is not None}


@given(NAMES, FILTERS, st.integers(1, 256), st.booleans(), st.integers(0, 2**32))
def test_what_is_stored_is_found_again(name: str, asked: Filter, partitions: int, lapsed: bool, seed: int) -> None:
    chance = random.Random(seed)
    spec = CreateSubscription(name, asked, partitions, 5000, 77, group=f"/g{seed}")
    one = Subscription(spec, 9, [chance.choice((3, 8, 2**63)) for _ in range(partitions)], lapsed)
    one.shares = [chance.randrange(5) for _ in range(partitions)]
    facts = store(one)
    (found,) = decode_subscriptions(facts)
    assert (found.spec, found.created, found.is_lapsed) == (spec, 9, lapsed)
    assert (found.cursors, found.shares) == (one.cursors, one.shares)
    for fact in encode_end(found):
        assert fact.value is None
        del facts[fact.key]
    assert facts == {}


def test_several_are_told_apart() -> None:
    many = [Subscription(CreateSubscription(name, Filter(), 2, 1, 1), 1, [5, 6]) for name in ("b", "a", "a.b", "ab")]
    assert [one.spec.name for one in decode_subscriptions(store(*many))] == ["a", "a.b", "ab", "b"]


def test_a_cursor_is_stored_in_a_few_bytes_however_many_partitions_stand_there() -> None:
    one = Subscription(CreateSubscription("s", Filter(), 256, 1, 1), 1, [123_456_789] * 256)
    fact = encode_share(one, 0)
    assert fact.value is not None
    assert len(fact.value) < 90
    single = Subscription(CreateSubscription("s", Filter(), 1, 1, 1), 1, [123_456_789])
    assert encode_share(single, 0) == Fact(fact.kind, "s/0", b'[[123456789,"1"]]')

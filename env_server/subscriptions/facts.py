"""How subscriptions are stored: one fact for what each is, and one for the cursors of each share of its partitions.

    "orders"     {"filter": {...}, "partitions": 64, ..., "created": 17, "lapsed": false}
    "orders/2"   [[1041, "f00"], [1040, "1"]]      partitions 8 to 11 stand at 1041, partition 0 at 1040

A share is what one consumer has, so that acknowledging writes one small fact, whatever the number of partitions. After
the first acknowledgement all of a share stands at one revision.
"""

import json
from typing import Any, Final

from env_server.model.changes import Fact, FactKind
from env_server.model.subscriptions import CreateSubscription
from env_server.model.watching import Filter
from env_server.subscriptions.subscription import Subscription

_FILTER_TEXTS: Final = ("path_prefix", "path_glob", "key_glob", "actor", "excluded_producer", "region")


def encode_definition(subscription: Subscription) -> Fact:
    """What it is."""
    spec, asked = subscription.spec, subscription.spec.filter
    kept: dict[str, Any] = {name: getattr(asked, name) for name in _FILTER_TEXTS if getattr(asked, name)}
    if asked.types:
        kept["types"] = sorted(asked.types)
    if asked.labels:
        kept["labels"] = asked.labels
    document = {
        "filter": kept,
        "partitions": spec.partitions,
        "ack_timeout_ms": spec.ack_timeout_ms,
        "max_lag": spec.max_lag,
        "group": spec.group,
        "created": subscription.created,
        "lapsed": subscription.is_lapsed,
    }
    return Fact(FactKind.SUBSCRIPTION, spec.name, json.dumps(document, separators=(",", ":")).encode())


def encode_share(subscription: Subscription, share: int) -> Fact:
    """The cursors of the partitions of a share; gone when it has none."""
    masks: dict[int, int] = {}
    for partition, (holder, cursor) in enumerate(zip(subscription.shares, subscription.cursors, strict=True)):
        if holder == share:
            masks[cursor] = masks.get(cursor, 0) | 1 << partition
    levels = ",".join([f'[{cursor},"{mask:x}"]' for cursor, mask in masks.items()])
    key = f"{subscription.spec.name}/{share}"
    return Fact(FactKind.SUBSCRIPTION, key, f"[{levels}]".encode() if masks else None)


def encode_end(subscription: Subscription) -> list[Fact]:
    """What makes all of it gone."""
    name = subscription.spec.name
    keys = [name, *(f"{name}/{share}" for share in sorted(set(subscription.shares)))]
    return [Fact(FactKind.SUBSCRIPTION, key, None) for key in keys]


def decode_subscriptions(facts: dict[str, bytes]) -> list[Subscription]:
    """All subscriptions, by name, from their facts."""
    found: dict[str, Subscription] = {}
    for key in sorted(facts):
        if "/" not in key:
            found[key] = _decode_definition(key, json.loads(facts[key]))
    for key, value in facts.items():
        name, slash, share = key.rpartition("/")
        if slash and name:
            _decode_share(found[name], int(share), json.loads(value))
    return list(found.values())


def _decode_definition(name: str, document: dict[str, Any]) -> Subscription:
    kept = document["filter"]
    asked = Filter(
        **{text: kept[text] for text in _FILTER_TEXTS if text in kept},
        types=frozenset(kept.get("types", ())),
        labels=kept.get("labels", {}),
    )
    spec = CreateSubscription(
        name,
        asked,
        document["partitions"],
        document["ack_timeout_ms"],
        document["max_lag"],
        group=document["group"],
    )
    return Subscription(spec, document["created"], [0] * spec.partitions, document["lapsed"])


def _decode_share(subscription: Subscription, share: int, levels: list[tuple[int, str]]) -> None:
    for cursor, mask in levels:
        members = int(mask, 16)
        while members:
            partition = (members & -members).bit_length() - 1
            subscription.shares[partition] = share
            subscription.cursors[partition] = cursor
            members &= members - 1

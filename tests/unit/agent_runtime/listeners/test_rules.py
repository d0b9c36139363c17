"""Who is woken by what."""

from __future__ import annotations

import itertools
import random

import pytest
from ecumene.client import EventType
from ecumene.client.globs import compile_key_glob, compile_path_glob

from agent_runtime.listeners.rules import EVERYONE, WakeRules, join_filters
from agent_runtime.settings import WakeRule
from tests.unit.ecumene.client.random_globs import draw_glob, draw_path, draw_segment

BEHAVIOUR, SET = EventType.BEHAVIOUR, EventType.ENTRY_SET


def test_all_given_parts_of_a_rule_must_match() -> None:
    rules = WakeRules([WakeRule(path="/game", types=("behaviour",), key="round.*")])
    assert rules.match(BEHAVIOUR, "/game", "round.opened") == EVERYONE
    assert rules.match(SET, "/game", "round.opened") is None
    assert rules.match(BEHAVIOUR, "/game/reports", "round.opened") is None
    assert rules.match(BEHAVIOUR, "/game", "gate") is None


def test_an_empty_rule_wakes_everyone_by_everything() -> None:
    assert WakeRules([WakeRule()]).match(SET, "/any", "") == EVERYONE


def test_an_addressed_rule_wakes_the_agent_whose_id_is_the_key() -> None:
    rules = WakeRules([WakeRule(path="/mail", key="{agent}"), WakeRule(path="/news")])
    assert rules.match(SET, "/mail", "ann") == "ann"
    assert rules.match(SET, "/mail", "") is None
    assert rules.match(SET, "/news", "ann") == EVERYONE


@pytest.mark.parametrize("rule", [{"path": "game"}, {"path": "/a//b"}, {"path": "/a**"}, {"key": "a/b"}, {"key": "[a"}])
def test_a_glob_that_is_none_is_refused_with_the_description(rule: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="glob"):
        WakeRule(**rule)


def test_the_index_finds_what_the_rules_say_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        rules = [
            WakeRule(
                path=chance.choice(("", draw_path(chance), draw_glob(chance))),
                types=chance.choice(((), ("entry_set",), ("entry_set", "behaviour"))),
                key=chance.choice(("", "{agent}", draw_segment(chance), "a*")),
            )
            for _ in range(chance.randint(1, 6))
        ]
        woken = WakeRules(rules)
        for kind, path, key in ((chance.choice((SET, BEHAVIOUR)), draw_path(chance), draw_segment(chance)),) * 2:
            assert woken.match(kind, path, key) == find_one_by_one(rules, kind, path, key)


def find_one_by_one(rules: list[WakeRule], kind: EventType, path: str, key: str) -> str | None:
    """What a wake rule means, without any index."""
    found = None
    for rule in rules:
        if rule.types and kind not in rule.event_types():
            continue
        if rule.path and not compile_path_glob(rule.path).fullmatch(path):
            continue
        if rule.key == "{agent}":
            found = key or None
        elif compile_key_glob(rule.key).fullmatch(key):
            return EVERYONE
    return found


def test_a_joined_filter_lets_through_whatever_a_rule_wants() -> None:
    choices = itertools.product(("", "/a/*", "/a/b", "/c"), ((), ("entry_set",)), ("", "k*", "{agent}"))
    rules = [WakeRule(path=path, types=types, key=key) for path, types, key in choices]
    for pair in itertools.combinations(rules, 2):
        joined, wake = join_filters(pair), WakeRules(pair)
        for path, kind, key in itertools.product(("/a/b", "/a/x", "/c", "/d"), (SET, BEHAVIOUR), ("k1", "other")):
            if wake.match(kind, path, key) is None:
                continue
            assert not joined.types or kind in joined.types
            assert compile_key_glob(joined.key_glob).fullmatch(key)
            assert not joined.path_glob or compile_path_glob(joined.path_glob).fullmatch(path)
            assert path.startswith(joined.path_prefix)


def test_one_rule_is_its_own_filter() -> None:
    joined = join_filters([WakeRule(path="/game", types=("behaviour",), key="round.opened")])
    assert (joined.path_glob, joined.types, joined.key_glob) == ("/game", (BEHAVIOUR,), "round.opened")


def test_keys_seen_once_do_not_pile_up() -> None:
    rules = WakeRules([WakeRule(path="/game")])
    for number in range(10_000):
        rules.match(SET, "/game", f"agent-{number}")
    assert len(rules._matches) <= 4096

"""Who is woken by what."""

from __future__ import annotations

import fnmatch
import itertools

import pytest
from ecumene.client import EventType

from agent_runtime.listeners.rules import EVERYONE, WakeRules, compile_path_glob, join_filters
from agent_runtime.settings import WakeRule

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


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a/?", "/a/b", True),
        ("/a.b", "/axb", False),
        ("/[x]", "/[x]", True),
    ],
)
def test_path_globs_stay_within_a_segment_unless_doubled(glob: str, path: str, matches: bool) -> None:
    assert bool(compile_path_glob(glob).fullmatch(path)) is matches


def test_a_joined_filter_lets_through_whatever_a_rule_wants() -> None:
    choices = itertools.product(("", "/a/*", "/a/b", "/c"), ((), ("entry_set",)), ("", "k*", "{agent}"))
    rules = [WakeRule(path=path, types=types, key=key) for path, types, key in choices]
    for pair in itertools.combinations(rules, 2):
        joined, wake = join_filters(pair), WakeRules(pair)
        for path, kind, key in itertools.product(("/a/b", "/a/x", "/c", "/d"), (SET, BEHAVIOUR), ("k1", "other")):
            if wake.match(kind, path, key) is None:
                continue
            assert not joined.types or kind in joined.types
            assert not joined.key_glob or fnmatch.fnmatchcase(key, joined.key_glob)
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

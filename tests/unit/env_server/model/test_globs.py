"""Globs, and that no pattern takes long."""

from __future__ import annotations

import time

import pytest

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.globs import compile_key_glob, compile_path_glob, find_literal_prefix

PATHS = [
    ("/town/*/m?rk*", "/town/a/market", True),
    ("/town/*", "/town/a/b", False),
    ("/town/*", "/town", False),
    ("/town/**", "/town", False),
    ("/town/**", "/town/a/b", True),
    ("/town/**/**", "/town", False),
    ("/town/**/market", "/town/market", True),
    ("/town/**/market", "/town/a/b/market", True),
    ("/town/**/market", "/town/market/x", False),
    ("/**/a/**/b", "/a/x/a/b", True),
    ("/**/a/*", "/a/a/a", True),
    ("/**/a/*", "/a/b/c", False),
    ("**/market", "/market", True),
    ("**", "/", True),
    ("/**", "/", False),
    ("/**/*", "/", False),
    ("/**/*", "/a/b", True),
    ("/", "/", True),
    ("/", "/a", False),
    ("/*", "/", False),
    ("/town", "/town", True),
    ("/town", "/town/a", False),
    ("/a[!b]c", "/abc", False),
    ("/a[!b]c", "/axc", True),
    ("/a.c", "/abc", False),
]
KEYS = [
    ("*", "anything", True),
    ("*", "", True),
    ("a*", "a", True),
    ("a*b*c", "a1b2b3c", True),
    ("a*b*c", "acb", False),
    ("*a", "aa", True),
    ("a*a", "a", False),
    ("a**b", "ab", True),
    ("[0-9]?", "4x", True),
    ("[]]", "]", True),
    ("[!]a]", "]", False),
    ("[*]", "*", True),
    ("[^a]", "^", True),
    ("é?", "éß", True),
    ("*\n*", "a\nb", True),
]
MALFORMED_PATHS = ["town", "*", "/town//a", "/town/", "/a**", "/[a", "/[z-a]"]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATHS)
def test_a_path_glob_matches(pattern: str, path: str, matches: bool) -> None:
    test = compile_path_glob(pattern, "glob")
    assert (test is None or bool(test(path))) is matches


@pytest.mark.parametrize(("pattern", "path", "matches"), PATHS)
def test_what_matches_lies_at_or_below_the_literal_prefix(pattern: str, path: str, matches: bool) -> None:
    prefix = find_literal_prefix(pattern, "glob")
    assert not matches or prefix == "/" or f"{path}/".startswith(f"{prefix}/")


@pytest.mark.parametrize(("pattern", "key", "matches"), KEYS)
def test_a_key_glob_matches(pattern: str, key: str, matches: bool) -> None:
    test = compile_key_glob(pattern, "glob")
    assert (test is None or bool(test(key))) is matches


@pytest.mark.parametrize("pattern", MALFORMED_PATHS)
def test_a_malformed_path_glob_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compile_path_glob(pattern, "filter.path_glob")
    assert refused.value.reason is Reason.INVALID_FIELD
    assert refused.value.violations[0][0] == "filter.path_glob"


@pytest.mark.parametrize("pattern", ["a/b", "[a", "[", "[!", "[]", "[b-a]"])
def test_a_malformed_key_glob_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest):
        compile_key_glob(pattern, "filter.key_glob")


def test_no_pattern_takes_exponential_time() -> None:
    started = time.process_time()
    key = compile_key_glob("*a" * 60 + "b", "glob")
    path = compile_path_glob("/**/a" * 40 + "/b", "glob")
    assert key is not None and not key("a" * 128)
    assert path is not None and not path("/a" * 200)
    assert time.process_time() - started < 0.5

"""One meaning of globs: what the SDK reads is what the server's filters read."""

from __future__ import annotations

import random
import time

import pytest
from ecumene.client.globs import compile_key_glob, compile_path_glob, escape_glob, find_literal_prefix

from env_server.model import globs as of_the_server
from env_server.model.errors import InvalidRequest
from tests.unit.ecumene.client.random_globs import (
    draw_glob,
    draw_loose_glob,
    draw_path,
    draw_segment,
    near_path,
)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/*", "/", False),
        ("/", "/", True),
        ("**", "/", True),
        ("/**", "/", False),
        ("/a/**", "/a/b/c", True),
        ("/a/**", "/a", False),
        ("/a/**/b", "/a/b", True),
        ("/a/?", "/a/b", True),
        ("/a.b", "/axb", False),
        ("/[x-z]", "/y", True),
        ("/[!x-z]", "/y", False),
        ("/[+-9]b", "//b", False),
        ("**/b", "/a/a/b", True),
        ("/**/a/**/b/*", "/a/c/b/b/c", True),
    ],
)
def test_what_a_path_glob_means(glob: str, path: str, matches: bool) -> None:
    assert bool(compile_path_glob(glob).fullmatch(path)) is matches


def test_random_globs_match_what_the_server_matches(seed: int) -> None:
    chance = random.Random(seed)
    sound = matched = 0
    for number in range(20_000):
        glob = draw_loose_glob(chance) if number % 2 else draw_glob(chance)
        try:
            theirs = of_the_server.compile_path_glob(glob, "f") or (lambda path: True)
        except InvalidRequest:
            with pytest.raises(ValueError):
                compile_path_glob(glob)
            continue
        sound += 1
        ours = compile_path_glob(glob)
        assert find_literal_prefix(glob) == of_the_server.find_literal_prefix(glob, "f")
        for path in (draw_path(chance), near_path(chance, glob), "/"):
            if "//" in path:
                continue
            assert bool(ours.fullmatch(path)) is bool(theirs(path)), (glob, path)
            matched += bool(theirs(path))
    assert sound > 5_000 and matched > 3_000, (sound, matched)


def test_random_key_globs_match_what_the_server_matches(seed: int) -> None:
    chance = random.Random(seed)
    sound = matched = 0
    for _ in range(20_000):
        glob = "".join(chance.choices("aab-]!^.**??[/", weights=[3] * 13 + [1], k=chance.randint(0, 6)))
        try:
            theirs = of_the_server.compile_key_glob(glob, "f") or (lambda key: True)
        except InvalidRequest:
            with pytest.raises(ValueError):
                compile_key_glob(glob)
            continue
        sound += 1
        for key in (draw_segment(chance), near_path(chance, glob).replace("/", ""), ""):
            assert bool(compile_key_glob(glob).fullmatch(key)) is bool(theirs(key)), (glob, key)
            matched += bool(theirs(key))
    assert sound > 5_000 and matched > 3_000, (sound, matched)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/" + "*a" * 40 + "b", "/" + "a" * 120),
        ("/**" + "/a/**" * 20 + "/b", "/a" * 120),
        ("/**" + "/*a*/**" * 20 + "/b", "/aaaa" * 80),
    ],
)
def test_a_glob_that_invites_going_back_takes_no_time(glob: str, path: str) -> None:
    begun_s = time.process_time()
    assert not compile_path_glob(glob).fullmatch(path)
    assert time.process_time() - begun_s < 1.0


@pytest.mark.parametrize("text", ["/town", "/a*b/**", "/[x]/?", "/a]b"])
def test_an_escaped_path_is_matched_by_itself_alone(text: str) -> None:
    matches = compile_path_glob(escape_glob(text)).fullmatch
    assert matches(text) and not matches(text + "x") and not matches(text.replace("a", "ab").replace("x", "y") + "/c")

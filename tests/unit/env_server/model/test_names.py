"""Names: refused, never mended."""

from __future__ import annotations

import pytest

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_identity, check_producer, check_segment, check_world, join_path, split_path

LIMITS = Limits()


@pytest.mark.parametrize("name", ["a", "a b", "x" * 128, "é" * 64, "東京", "😀", "a.b-c_d~!", "." * 3, "\u00a0"])
def test_segments_that_are_accepted(name: str) -> None:
    check_segment(name, LIMITS)
    assert split_path(f"/{name}", LIMITS) == [name]


@pytest.mark.parametrize(
    "name", ["", "/", "a/b", "x" * 129, "é" * 65, "e\u0301", "a\x00", "a\n", "\x7f", "\x85", "\u2028", "\ud800"]
)
def test_segments_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_segment(name, LIMITS)
    assert caught.value.reason is Reason.INVALID_KEY
    if name != "a/b":
        with pytest.raises(InvalidRequest) as caught:
            split_path(f"/town/{name}/x", LIMITS)
        assert caught.value.reason is Reason.INVALID_PATH


@pytest.mark.parametrize(
    "path", ["", "a", "//", "/a/", "/a//b", "/" + "a/" * 16 + "a", "/" + "/".join(["x" * 100] * 4)]
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        split_path(path, LIMITS)
    assert caught.value.reason is Reason.INVALID_PATH


@pytest.mark.parametrize("path", ["/a/", "/a//b", "//"])
def test_of_a_slash_too_many_the_refusal_speaks(path: str) -> None:
    with pytest.raises(InvalidRequest, match="must not end with '/', nor have two in a row"):
        split_path(path, LIMITS)


@pytest.mark.parametrize("name", ["a/b", "é/b", "a\n" * 99, "a\n"])
def test_a_refusal_tells_the_name_at_a_bounded_length(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_segment(name, LIMITS)
    told = str(caught.value)
    assert told.isascii()
    assert ascii(name[:60])[:-1] in told
    assert len(told) < 200


def test_paths_at_their_bounds_are_accepted() -> None:
    assert split_path("/", LIMITS) == []
    assert len(split_path("/a" * 16, LIMITS)) == 16
    longest = "/" + "/".join(["x" * 128, "y" * 128, "z" * 128, "w" * 12])
    assert len(longest) == 400
    assert len(split_path(longest, LIMITS)) == 4
    assert join_path("/", "a") == "/a"
    assert join_path("/a", "b") == "/a/b"


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "x" * 64])
def test_identities_that_are_accepted(name: str) -> None:
    check_identity(name, "producer")


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, "a/b", "a\n"])
def test_identities_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_identity(name, "producer")


@pytest.mark.parametrize("name", ["a", "x" * 64, "a/2", "request", "ann/wf", f"{'x' * 64}/{'y' * 16}"])
def test_producers_that_are_accepted(name: str) -> None:
    check_producer(name, "producer")


@pytest.mark.parametrize(
    "name", ["", "/2", "a/", "a/b/c", "request/2", f"a/{'y' * 17}", f"{'x' * 65}/2", "a/\n", "a/ä"]
)
def test_producers_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_producer(name, "producer")


@pytest.mark.parametrize("name", ["", "Main", "a_b", "x" * 41, "a\n"])
def test_worlds_that_are_refused(name: str) -> None:
    check_world("main-2")
    with pytest.raises(InvalidRequest):
        check_world(name)

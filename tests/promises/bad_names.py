"""Paths and keys that nothing can have, wherever a request may name one: refused, and never merely absent."""

from __future__ import annotations

from env_api.v1 import operations_pb2 as ops
from env_api.v1 import queries_pb2

from tests.promises.bad_request import DELETE, GET, INVALID, ONE, Bad, environment, update

VERSION_7 = ops.Precondition(version=7)
NFD = "e\u0301"
BAD_SEGMENTS = {"control": "a\nb", "decomposed": NFD, "long": "x" * 129, "long in utf-8": "é" * 65}

PATHS = [
    Bad(f"path {name}", path, "v", message, INVALID, "INVALID_PATH")
    for message in (GET, ONE, DELETE)
    for name, path in {
        "relative": "town",
        "empty": "",
        "double slash": "/town//x",
        "slash at the end": "/town/",
        "deep": "/a" * 17,
        "long": "/" + "/".join(["x" * 100] * 4),
        **{name: f"/{segment}" for name, segment in BAD_SEGMENTS.items()},
    }.items()
]
KEYS = [
    *[Bad(f"key {name}", "/town", key, ONE, INVALID, "INVALID_KEY") for name, key in BAD_SEGMENTS.items()],
    *[
        Bad(f"key {name}", "/town", key, message, INVALID, "INVALID_KEY")
        for message in (
            GET,
            DELETE,
            queries_pb2.Query(past=queries_pb2.ReadPast()),
            queries_pb2.Query(stream=queries_pb2.ReadStream()),
        )
        for name, key in BAD_SEGMENTS.items()
    ],
    Bad("key deleted if present", "/town", "a/b", ops.Delete(if_present=True), INVALID, "INVALID_KEY"),
    Bad("path of a past", "/town//x", "v", queries_pb2.Query(past=queries_pb2.ReadPast()), INVALID, "INVALID_PATH"),
    *[
        Bad(f"{test} of a {name}", "/town", "v", ONE, INVALID, reason, {}, (ops.Precondition(**place, **{test: True}),))
        for test in ("exists", "absent")
        for name, reason, place in (
            ("key that cannot be", "INVALID_KEY", {"path": "/town", "key": "a/b"}),
            ("path that cannot be", "INVALID_PATH", {"path": "town"}),
        )
    ],
    Bad("version of a key that cannot be", "/town", "a/b", DELETE, INVALID, "INVALID_KEY", {}, (VERSION_7,)),
    Bad("key with a slash", "/town", "a/b", update(add_int=1), INVALID, "INVALID_KEY"),
    Bad("no key for a value", "/town", "", ONE, INVALID, "INVALID_FIELD"),
    Bad("a key for labels", "/town", "v", environment(set_labels={"a": "b"}), INVALID, "INVALID_FIELD"),
    Bad("a key for an invoke", "/town", "", ops.Invoke(), INVALID, "INVALID_FIELD"),
]
NAMES = [*PATHS, *KEYS]

"""Random ops for the machines that compare a world with its model."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.promises.world_model import Ask

PATHS = st.sampled_from(["/", "/", "/", "/a", "/a", "/a/b", "/a/c", "/d"])
KEYS = st.sampled_from(["k1", "k2", "k3"])
VALUES = st.integers(-9, 9) | st.sampled_from([0.5, 1e308, "text", None])
PATCHES = st.sampled_from([{"a": 1}, {"a": None, "b": 2}, {"c": {"d": 1}}, {"c": {"d": None}}])
ENVIRONMENT_VERBS = ["register", "register", "ensure environment", "unregister", "unregister all"]


def asks(verbs: list[str], keys: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Ask]:
    """Ops of these kinds."""
    return st.builds(lambda *parts: Ask(*parts), st.sampled_from(verbs), PATHS, keys, values)


READING = ("read", "near")
CELLS = st.tuples(st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0, 4.0]), st.sampled_from([0.0, 1.0, 3.0]))
"""Of the space that environments have where there are moves; some lie outside."""


def _ask(verb: str, path: str, key: str, value: Any) -> Ask:
    return Ask(verb, path, key, value)


CROWDED = st.sampled_from(["/a", "/a", "/a", "/a", "/"])
MOVES = st.one_of(
    st.builds(_ask, st.just("move"), CROWDED, KEYS, CELLS | CELLS | st.just(())),
    st.builds(_ask, st.just("place"), CROWDED, KEYS, st.tuples(VALUES, CELLS)),
    st.builds(_ask, st.just("place"), CROWDED, KEYS, st.tuples(VALUES, CELLS)),
    st.builds(_ask, st.sampled_from(["set", "delete", "drop"]), st.just("/a"), KEYS, st.just(5)),
)
WRITES = st.one_of(
    asks(["set", "set", "create", "ensure"], KEYS, VALUES),
    asks(["add", "append"], KEYS, st.integers(-9, 9)),
    asks(["add"], KEYS, st.sampled_from([0.5, -2.25])),
    asks(["merge"], KEYS, PATCHES),
    asks(["delete", "drop"], KEYS, st.none()),
    asks(ENVIRONMENT_VERBS, st.just(""), st.none()),
).filter(lambda ask: ask.path != "/" or bool(ask.key))
READS = asks(["read"], KEYS, st.none())
NEARBY = asks(["near"], KEYS, st.none())
TESTS = st.lists(st.tuples(PATHS, KEYS, st.integers(0, 2)), min_size=1, max_size=2).map(tuple)


def ops_of(writes: st.SearchStrategy[Ask], reads: st.SearchStrategy[Ask]) -> st.SearchStrategy[Ask]:
    """These, alone, with a version to expect, with identities of their own, and together."""
    plain = st.builds(
        lambda ask, version: ask._replace(version=version if ask.key else 0), writes | reads, st.integers(0, 3)
    )
    parts = st.lists(writes, min_size=1, max_size=4).map(tuple)
    return st.one_of(
        plain,
        plain,
        st.builds(
            lambda ask, producer, seq: ask if ask.verb in READING else ask._replace(producer=producer, seq=seq),
            plain,
            st.sampled_from(["p1", "p2"]),
            st.integers(1, 12),
        ),
        st.builds(lambda parts: Ask("transact", "/", parts=parts), parts),
        st.builds(
            lambda parts, tests, otherwise: Ask("transact", "/", parts=parts, tests=tests, otherwise=otherwise),
            parts,
            TESTS,
            st.just(()) | parts,
        ),
    )


OPS = ops_of(WRITES, READS)
ON_ONE_KEY = st.builds(
    lambda verb, path, key, values: [Ask(verb, path, key, value) for value in values],
    st.sampled_from(["set", "add", "append"]),
    PATHS,
    KEYS,
    st.lists(st.integers(-9, 9), min_size=2, max_size=4),
)
FRAMES = st.lists(OPS, min_size=1, max_size=6) | ON_ONE_KEY
CROWDS = st.lists(ops_of(MOVES, READS | NEARBY), min_size=1, max_size=6)
MOVING_FRAMES = st.one_of(
    st.lists(ops_of(WRITES | MOVES, READS | NEARBY), min_size=1, max_size=6),
    ON_ONE_KEY,
    CROWDS.map(lambda frame: [Ask("ensure environment", "/a"), *frame]),
)

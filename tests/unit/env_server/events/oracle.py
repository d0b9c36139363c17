"""The meaning of a filter, row by row and without cleverness, and strategies for filters and rows."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import strategies as st

from env_server.model.changes import EventType
from env_server.model.watching import Filter
from tests.unit.env_server.events.worlds import Row

CHANGES = st.builds(
    Row,
    path=st.sampled_from(["/", "/town", "/town/a", "/town/a/b", "/townhall", "/far"]),
    key=st.sampled_from(["", "a", "ab", "b", "cab"]),
    type=st.sampled_from([EventType.ENTRY_SET, EventType.ENTRY_DELETED, EventType.ENVIRONMENT_UPDATED]),
    actor=st.sampled_from(["", "ann", "bob"]),
    producer=st.sampled_from(["", "p", "q"]),
    labels=st.sampled_from([(), (("zone", "x"),), (("zone", "y"),)]),
    joined=st.booleans(),
    sender=st.sampled_from(["", "", "p", "r"]),
)
CROSSINGS = st.builds(
    lambda row, type_, region: row._replace(type=type_, region=region),
    CHANGES,
    st.sampled_from([EventType.REGION_ENTERED, EventType.REGION_LEFT]),
    st.sampled_from(["r", "s"]),
)
ROWS = CHANGES | CHANGES | CROSSINGS
FILTERS = st.builds(
    Filter,
    path_prefix=st.sampled_from(["", "", "/", "/town", "/town/a", "/none"]),
    path_glob=st.sampled_from(["", "", "", "/*", "/town/**", "/town*", "**/a", "/far"]),
    key_glob=st.sampled_from(["", "", "*", "a", "a*", "?b", "*a*b"]),
    types=st.sampled_from(
        [frozenset(), frozenset(), frozenset({4}), frozenset({4, 7}), frozenset({9}), frozenset({4, 17})]
    ),
    labels=st.sampled_from([{}, {}, {"zone": "x"}, {"size": "1"}]),
    actor=st.sampled_from(["", "", "ann", "eve"]),
    excluded_producer=st.sampled_from(["", "", "p"]),
    region=st.sampled_from(["", "", "", "r", "gone"]),
)
_GLOBS = {
    "": lambda path: True,
    "/*": lambda path: path.count("/") == 1 and path != "/",
    "/town/**": lambda path: path.startswith("/town/"),
    "/town*": lambda path: path.startswith("/town") and path.count("/") == 1,
    "**/a": lambda path: path.endswith("/a"),
    "/far": lambda path: path == "/far",
}


def accepts(asked: Filter, row: Row) -> bool:
    """Whether one row matches."""
    prefix = asked.path_prefix.rstrip("/")
    return (
        (row.path == prefix or row.path.startswith(f"{prefix}/"))
        and _GLOBS[asked.path_glob](row.path)
        and fnmatchcase(row.key, asked.key_glob or "*")
        and (not asked.types or row.type in asked.types)
        and all((name, value) in row.labels for name, value in asked.labels.items())
        and asked.actor in ("", row.actor)
        and asked.region in ("", row.region)
        and (not asked.excluded_producer or asked.excluded_producer not in (row.producer, row.sender))
    )

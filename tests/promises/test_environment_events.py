"""Events of environments tell what was declared: alike live, from the log, after a restart, and to whatever group.

Trees, declarations and updates are drawn at random. Whoever only reads the events knows of every environment what a
query tells of it, but for the grants, which nobody learns from events.
"""

from __future__ import annotations

import asyncio
from typing import Any

from env_api.v1 import events_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from env_server.model.changes import EventType
from env_server.model.declaration_documents import FIELDS, document_of
from env_server.model.environments import Access, Aggregate, Declaration, Function, Gate, Grant
from env_server.model.limits import Limits
from env_server.model.operations import Code, EnvironmentUpdate, RegisterEnvironment
from env_server.model.values import Json
from env_server.model.watching import Filter, WatchSpec
from env_server.rpc.encode.columns import encode_columns
from tests.engine import Op, Stand, drop, put
from tests.event_rows import rows_of
from tests.unit.env_server.events.worlds import drain

DECLARED = frozenset({EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_UPDATED})
TYPES = DECLARED | {EventType.ENVIRONMENT_DELETED}
PATHS = st.sampled_from(["/a", "/b", "/a/x"])
LABELS = st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from(["", "1"]), max_size=2)
CONFIGS = st.sampled_from([{}, {"n": 2**63 - 1}, {"t": "ü", "deep": {"a": [0.5]}}]).map(Json.of)
AGGREGATES = st.lists(
    st.builds(Aggregate, st.sampled_from("st"), st.sampled_from([Function.SUM, Function.MAX])),
    max_size=2,
    unique_by=lambda one: one.name,
).map(tuple)
GATES = st.lists(st.builds(Gate, st.just("g"), st.integers(0, 3), st.integers(0, 9)), max_size=1).map(tuple)
GRANTS = st.lists(
    st.builds(Grant, st.sampled_from(["/hidden/one", "/b"]), st.just(Access.READ)),
    max_size=2,
    unique_by=lambda grant: grant.group,
).map(tuple)
DECLARATIONS = st.builds(Declaration, labels=LABELS, config=CONFIGS, aggregates=AGGREGATES, gates=GATES, grants=GRANTS)
REGISTERS = st.builds(
    lambda path, declaration: Op(path, "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(declaration)),
    PATHS,
    DECLARATIONS,
)
UPDATES = st.builds(
    lambda path, asked: Op(path, "", Code.UPDATE_ENVIRONMENT, asked),
    PATHS | st.just("/"),
    st.builds(
        EnvironmentUpdate,
        set_labels=LABELS.map(lambda labels: tuple(labels.items())),
        remove_labels=st.sampled_from([(), ("p",)]),
        merge_config=st.none() | CONFIGS,
        set_aggregates=AGGREGATES,
        set_gates=GATES,
        set_grants=GRANTS,
    ),
)
OTHERS = st.builds(lambda path: put(path, "k", 1), PATHS) | st.builds(lambda path: drop(path, ""), PATHS)
FRAMES = st.lists(st.one_of(REGISTERS, REGISTERS, UPDATES, UPDATES, OTHERS), min_size=1, max_size=5)
Row = tuple[int, int, str, Any, tuple[str, ...]]


async def read(stand: Stand, watch: Any) -> list[Row]:
    """What the watch tells of environments, as it goes over the wire."""
    found: list[Row] = []
    for delivery in await drain(watch):
        if delivery.changes is None or delivery.rows == []:
            continue
        frame = events_pb2.EventFrame.FromString(encode_columns(delivery.changes, delivery.rows))
        fields = {changed.row: tuple(changed.fields) for changed in frame.changed_fields}
        found += [
            (row.revision, row.type, row.path, row.value, fields.get(number, ()))
            for number, row in enumerate(rows_of(frame))
            if row.type in TYPES
        ]
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(FRAMES, min_size=1, max_size=5))
def test_who_only_hears_the_events_knows_what_is_declared(frames: list[list[Op]]) -> None:
    asyncio.run(check(frames))


async def check(frames: list[list[Op]]) -> None:
    stand = Stand(limits=Limits(ring_bytes_max=1000))
    live = stand.world.watches.open(WatchSpec(Filter(), from_revision=1))
    of_group = stand.world.watches.open(WatchSpec(Filter(path_prefix="/a"), from_revision=1, group="/a"))
    told: list[Row] = []
    heard: list[Row] = []
    for ops in frames:
        stand.do(*ops)
        told += await read(stand, live)
        heard += await read(stand, of_group)
    assert heard == [row for row in told if f"{row[2]}/".startswith("/a/")], "a group is told the same"
    check_told(stand, told)
    for way in (None, stand.reopen, lambda: (stand.stop(), stand.open())):
        if way is not None:
            way()
        again = stand.world.watches.open(WatchSpec(Filter(), from_revision=1))
        assert await read(stand, again) == told, "replay equals live"


def check_told(stand: Stand, told: list[Row]) -> None:
    known: dict[str, bytes] = {}
    for _, type_, path, value, fields in told:
        if type_ == EventType.ENVIRONMENT_DELETED:
            assert value is None
            del known[path]
            continue
        kind, text = value
        assert kind == "json_value"
        assert b"hidden" not in text, "grants are told by no event"
        if type_ == EventType.ENVIRONMENT_UPDATED:
            assert fields
            assert set(fields) <= set(FIELDS)
            before, after = Json(known[path]).document, Json(text).document
            changed = {name for name in after if after[name] != before[name]}
            assert changed <= set(fields), "every change is named"
        known[path] = text
    nodes = stand.world._tree.nodes.by_path
    assert known == {path: document_of(node.declaration).text for path, node in nodes.items()}

"""The document of a declaration holds each part as it was given, and nothing that only some may know."""

from __future__ import annotations

from dataclasses import fields, replace

from env_server.model.declaration_documents import FIELDS, document_of
from env_server.model.environments import Access, Aggregate, Declaration, Function, Gate, Grant, Scope
from env_server.model.spaces import Box, Disc, Grid, Neighbourhood, Proximity, Region, Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.model.values import Json

FULL = Declaration(
    kind="chat_room",
    labels={"floor": 'the "7th"', "ünicode": ""},
    config=Json(b'{"big": 9007199254740993, "deep":{"a" :[1.50]}}'),
    schema=Json(b'{"type" :"number"}'),
    aggregates=(
        Aggregate("h", Function.HISTOGRAM, bounds=(0.1, 2.0), field=("a/b", "~")),
        Aggregate("n", Function.COUNT, in_generation=True),
        Aggregate("s", Function.SUM, Scope.CHILDREN),
    ),
    gates=(Gate("g", 3, 500, generation=7, members_path="/secret/members"),),
    grants=(Grant("/secret/group", Access.WRITE), Grant("*", Access.READ)),
    lease=12,
    space=Space(
        Grid(4, 3, Neighbourhood.HEX, capacity=2),
        (Region("west", Box((0.0, 0.0), (1.0, 2.0))), Region("east", Disc((3.0, 1.0), 0.5))),
        (Proximity("seen", 2.0, "a*"),),
    ),
    clock=ClockDeclaration(ClockMode.REALTIME, 7, 2.5, paused=True, lookahead_ns=0),
)


def test_every_part_stands_in_it() -> None:
    told = document_of(FULL)
    assert told.document == {
        "kind": "chat_room",
        "labels": FULL.labels,
        "config": FULL.config.document,
        "entry_schema": {"type": "number"},
        "aggregates": {
            "h": {"function": "histogram", "scope": "entries", "bounds": [0.1, 2.0], "field": "/a~1b/~0"},
            "n": {"function": "count", "scope": "entries", "in_generation": True},
            "s": {"function": "sum", "scope": "children"},
        },
        "gates": {"g": {"count_target": 3, "deadline_ms": 500, "all_live_members": True}},
        "space": {
            "grid": {"width": 4, "height": 3, "neighbourhood": "hex", "capacity": 2},
            "regions": {
                "east": {"disc": {"centre": [3.0, 1.0], "radius": 0.5}},
                "west": {"box": {"low": [0.0, 0.0], "high": [1.0, 2.0]}},
            },
            "proximities": {"seen": {"distance": 2.0, "key_glob": "a*"}},
        },
        "lease_id": 12,
        "clock": {"mode": "realtime", "start_ns": 7, "rate": 2.5, "paused": True, "lookahead_ns": 0},
    }
    assert FULL.config.text in told.text, "documents are told byte for byte"


def test_the_plainest_one() -> None:
    assert document_of(Declaration()) == Json.of(
        {"kind": "basic", "labels": {}, "config": {}, "aggregates": {}, "gates": {}}
    )


def test_it_tells_nothing_of_others_and_forgets_no_part() -> None:
    assert b"secret" not in document_of(FULL).text
    assert document_of(replace(FULL, grants=())) == document_of(FULL)
    waiting = ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/secret/staff")
    assert document_of(Declaration(clock=waiting)) == document_of(
        Declaration(clock=replace(waiting, participants_path=""))
    )
    parts = {field.name for field in fields(Declaration)}
    known = {"kind", "labels", "config", "schema", "aggregates", "gates", "grants", "lease", "clock", "space"}
    assert parts == known, "tell it too"
    assert set(FIELDS) < parts

"""Schemas in force: no way leads a value past them, and environments without one do not know of them."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.model.entries import COUNTER, STREAM, VALUE
from env_server.model.environments import Declaration
from env_server.model.errors import Reason
from env_server.model.operations import Code, RegisterEntry, RegisterEnvironment, Transact, Write
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Stand, add, drop, invoke, new_environment, put

SMALL = Json(b'{"anyOf":[{"type":"integer","maximum":9},{"type":"object","properties":{"n":{"maximum":9}}}]}')
BAD_WRITES = {
    "set": put("/s", "v", 10),
    "set null": put("/s", "v", None),
    "set bytes": put("/s", "v", b"x"),
    "increment": add("/s", "c", 5),
    "first increment": add("/s", "c2", 10),
    "merge": Op("/s", "o", Code.MERGE, Json(b'{"n":10}')),
    "append": Op("/s", "t", Code.APPEND, 10),
    "first append": Op("/s", "t2", Code.APPEND, 10),
    "register": Op("/s", "r", Code.REGISTER_ENTRY, RegisterEntry(VALUE, 10)),
    "register nothing": Op("/s", "r", Code.REGISTER_ENTRY, RegisterEntry(VALUE)),
    "register a counter": Op("/s", "r", Code.REGISTER_ENTRY, RegisterEntry(COUNTER, 10)),
}


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(
        new_environment("/s", schema=SMALL),
        new_environment("/free"),
        put("/s", "v", 1),
        add("/s", "c", 5),
        put("/s", "o", Json(b'{"n":1}')),
        Op("/s", "t", Code.APPEND, 1),
    )
    return stand


def picture(stand: Stand) -> Any:
    node = stand.world._tree.nodes.by_path["/s"]
    return stand.world.revision, dict(node.entries), {key: list(s.items) for key, s in node.streams.items()}


@pytest.mark.parametrize("name", BAD_WRITES)
def test_a_value_against_the_schema_is_refused_by_every_write(stand: Stand, name: str) -> None:
    op = BAD_WRITES[name]
    for _ in range(2):
        before = picture(stand)
        error = stand.do(op).error
        assert error.reason is Reason.SCHEMA_MISMATCH
        assert error.violations[0][0].startswith("value")
        in_transaction = Transact((), (Write("/free", "k", Code.SET, 1), Write(op.path, op.key, op.code, op.argument)))
        assert stand.do(Op("/", "", Code.TRANSACT, in_transaction)).error.reason is Reason.SCHEMA_MISMATCH
        assert picture(stand) == before
        stand.stop()
        stand.open()


def test_what_meets_it_is_written_and_a_stream_is_made_of_nothing(stand: Stand) -> None:
    stand.done(
        put("/s", "v", 9),
        add("/s", "c", 4),
        Op("/s", "o", Code.MERGE, Json(b'{"n":9}')),
        Op("/s", "t", Code.APPEND, 9),
        Op("/s", "r", Code.REGISTER_ENTRY, RegisterEntry(STREAM)),
        drop("/s", "v"),
    )


def test_a_mismatch_names_the_pointer(stand: Stand) -> None:
    stand.done(new_environment("/deep", schema=Json(b'{"items":{"type":"integer"}}')))
    error = stand.do(put("/deep", "k", Json(b'[1,"x",2,null]'))).error
    assert [where for where, _ in error.violations] == ["value/1", "value/3"]
    assert error.metadata == {"path": "/deep", "key": "k"}


def test_it_holds_from_its_registration_on_within_one_frame() -> None:
    stand = Stand()
    sent = stand.do(
        put("/", "k", "free"), new_environment("/late", schema=SMALL), put("/late", "k", 10), put("/late", "k", 1)
    )
    assert sent.outcome(2).reason is Reason.SCHEMA_MISMATCH  # type: ignore[union-attr]
    assert stand.value("/late", "k") == 1


def test_a_bad_schema_registers_nothing() -> None:
    stand = Stand()
    for text in (b"5", b'{"type":"nonsense"}', b'{"$ref":"http://127.0.0.1/x"}'):
        asked = RegisterEnvironment(Declaration(schema=Json(text)))
        error = stand.do(Op("/x", "", Code.REGISTER_ENVIRONMENT, asked)).error
        assert error.reason is Reason.INVALID_FIELD
    assert "/x" not in stand.world._tree.nodes.by_path


def test_recovery_compiles_nothing_and_environments_without_a_schema_look_for_none(stand: Stand) -> None:
    stand.reopen()
    tree = stand.world._tree
    assert tree.schemas.in_use and not tree.schemas._compiled
    stand.done(put("/free", "k", "anything"))
    assert not tree.schemas._compiled
    assert stand.do(put("/s", "v", 10)).error.reason is Reason.SCHEMA_MISMATCH
    assert stand.value("/s", "v") == 1
    assert stand.value("/s", "x") is NOTHING


class Writer(Behaviour):
    """Writes what it is told."""

    kind = "writer"

    @operation(writes=lambda path, value: [Target(path, "v")])
    async def write(self, ctx: Any, value: int) -> None:
        """Sets v."""
        ctx.set("v", value)


def test_what_a_behaviour_staged_must_meet_it_too() -> None:
    stand = Stand(Writer())
    stand.done(new_environment("/w", kind="writer", schema=SMALL))
    assert stand.do(invoke("/w", "write", value=10)).error.reason is Reason.SCHEMA_MISMATCH
    stand.done(invoke("/w", "write", value=3))
    assert stand.value("/w", "v") == 3

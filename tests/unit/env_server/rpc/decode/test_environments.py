"""Declarations from the wire."""

import math
from typing import Any

import pytest
from env_api.v1 import operations_pb2 as pb

from env_server.model.environments import Access, Aggregate, Declaration, Function, Gate, Grant, Scope
from env_server.model.errors import LimitExceeded, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import BeginGeneration, EnvironmentUpdate, OpenGate
from env_server.model.values import Json
from env_server.rpc.decode.environments import decode_declaration, decode_environment_update

LIMITS = Limits()


def declare(**fields: Any) -> Declaration:
    return decode_declaration(pb.Register(**fields), LIMITS)


def test_an_empty_declaration_is_a_basic_environment() -> None:
    assert declare() == Declaration()


def test_a_full_declaration() -> None:
    aggregates = [
        {"name": "mean", "function": 3, "in_generation": True, "field": "/a~1b/c~0d"},
        {"name": "h", "function": 6, "bounds": [0, 1, 2.5]},
    ]
    gate = {"name": "g", "count_target": 3, "deadline_ms": 50}
    assert declare(kind="room", config_json=b"[1]", aggregates=aggregates, gates=[gate]) == Declaration(
        kind="room",
        config=Json(b"[1]"),
        aggregates=(
            Aggregate("mean", Function.MEAN, in_generation=True, field=("a/b", "c~d")),
            Aggregate("h", Function.HISTOGRAM, bounds=(0.0, 1.0, 2.5)),
        ),
        gates=(Gate("g", 3, 50),),
    )


def test_an_update_of_every_part() -> None:
    message = pb.EnvironmentUpdate(
        set_labels={"a": "1"},
        remove_labels=["b"],
        merge_config_json=b"{}",
        set_aggregates=[{"name": "n", "function": 1}],
        remove_aggregates=["m"],
        set_gates=[{"name": "g"}],
        remove_gates=["f"],
        begin_generation={"gate": "g", "count_target": 0},
        open_gate={"gate": "g", "generation": 4},
    )
    assert decode_environment_update(message, LIMITS) == EnvironmentUpdate(
        set_labels=(("a", "1"),),
        remove_labels=("b",),
        merge_config=Json(b"{}"),
        set_aggregates=(Aggregate("n", Function.COUNT),),
        remove_aggregates=("m",),
        set_gates=(Gate("g"),),
        remove_gates=("f",),
        begin=BeginGeneration("g", 0, None),
        open=OpenGate("g", 4),
    )


def test_what_is_unset_in_an_update_stays() -> None:
    assert decode_environment_update(pb.EnvironmentUpdate(), LIMITS) == EnvironmentUpdate()


@pytest.mark.parametrize(
    "fields",
    [
        {"aggregates": [{"name": "", "function": 1}]},
        {"aggregates": [{"name": "a/b", "function": 1}]},
        {"aggregates": [{"name": "a"}]},
        {"aggregates": [{"name": "a", "function": 9}]},
        {"aggregates": [{"name": "a", "function": 1, "scope": 9}]},
        {"aggregates": [{"name": "a", "function": 6}]},
        {"aggregates": [{"name": "a", "function": 6, "bounds": [1, 1]}]},
        {"aggregates": [{"name": "a", "function": 6, "bounds": [2, 1]}]},
        {"aggregates": [{"name": "a", "function": 6, "bounds": [1, math.inf]}]},
        {"aggregates": [{"name": "a", "function": 1, "bounds": [1]}]},
        {"aggregates": [{"name": "a", "function": 1, "field": "x"}]},
        {"aggregates": [{"name": "a", "function": 1, "field": "/~2"}]},
        {"aggregates": [{"name": "a", "function": 1}, {"name": "a", "function": 2}]},
        {"gates": [{"name": ""}]},
        {"gates": [{"name": "g", "deadline_ms": -1}]},
        {"gates": [{"name": "g"}, {"name": "h"}]},
        {"gates": [{"name": "g", "all_live_members": True}]},
        {"gates": [{"name": "g", "members_path": "/m"}]},
        {"labels": {"": "x"}},
        {"labels": {"x": "y" * 129}},
        {"kind": "a/b"},
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(WorldError) as caught:
        declare(**fields)
    assert caught.value.reason is Reason.INVALID_FIELD


def test_a_schema_is_a_document_of_bounded_size() -> None:
    assert declare(entry_schema_json=b'{"type":"integer"}').schema == Json(b'{"type":"integer"}')
    assert declare().schema is None
    with pytest.raises(LimitExceeded, match="schema_bytes_max"):
        declare(entry_schema_json=b'"' + b"x" * 70_000 + b'"')
    with pytest.raises(WorldError) as caught:
        declare(entry_schema_json=b"{")
    assert caught.value.reason is Reason.INVALID_VALUE


def test_grants_name_groups_once_and_what_they_may() -> None:
    assert declare(grants=[{"group": "/a", "access": 1}, {"group": "*", "access": 2}]).grants == (
        Grant("/a", Access.READ),
        Grant("*", Access.WRITE),
    )
    for wrong in (
        [{"group": "/a"}],
        [{"group": "/a", "access": 9}],
        [{"group": "a", "access": 1}],
        [{"group": "/a", "access": 1}, {"group": "/a", "access": 2}],
    ):
        with pytest.raises(WorldError, match="grants"):
            declare(grants=wrong)


def test_an_aggregate_may_run_over_children() -> None:
    assert declare(aggregates=[{"name": "a", "function": 1, "scope": 2}]).aggregates[0].scope is Scope.CHILDREN


def test_a_gate_may_wait_for_members_and_an_environment_live_under_a_lease() -> None:
    declaration = declare(gates=[{"name": "g", "all_live_members": True, "members_path": "/m"}], lease_id=7)
    assert (declaration.gates[0].members_path, declaration.lease) == ("/m", 7)
    with pytest.raises(WorldError) as caught:
        declare(gates=[{"name": "g", "all_live_members": True, "members_path": "m"}])
    assert caught.value.reason is Reason.INVALID_PATH


def test_a_negative_deadline_of_a_generation_is_refused() -> None:
    with pytest.raises(WorldError, match="deadline_ms"):
        decode_environment_update(pb.EnvironmentUpdate(begin_generation={"gate": "g", "deadline_ms": -1}), LIMITS)


def test_limits_are_named() -> None:
    limits = Limits(labels_max=1, aggregates_max=1, histogram_bounds_max=1)
    for limit, fields in {
        "labels_max": {"labels": {"a": "", "b": ""}},
        "aggregates_max": {"aggregates": [{"name": "a", "function": 1}, {"name": "b", "function": 1}]},
        "histogram_bounds_max": {"aggregates": [{"name": "a", "function": 6, "bounds": [1, 2]}]},
    }.items():
        with pytest.raises(LimitExceeded, match=limit):
            decode_declaration(pb.Register(**fields), limits)  # type: ignore[arg-type]

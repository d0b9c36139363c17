"""Ops about leases, members and gates that wait for them, for stands of the engine."""

from __future__ import annotations

import json
from typing import Any

from env_server.leases.leases import Kept, LeaseState
from env_server.model.changes import EventType
from env_server.model.entries import MEMBER, VALUE
from env_server.model.environments import Gate
from env_server.model.operations import (
    BeginGeneration,
    Code,
    EnvironmentUpdate,
    GrantLease,
    RegisterEntry,
    RevokeLease,
)
from env_server.model.values import NOTHING, Value
from tests.engine import Op, Stand


def grant(ttl_ms: int = 10_000, holder: str = "w", **beside: Any) -> Op:
    """An op that grants a lease."""
    return Op("/", "", Code.GRANT_LEASE, GrantLease(ttl_ms, holder), **beside)


def revoke(lease: int, **beside: Any) -> Op:
    """An op that ends one."""
    return Op("/", "", Code.REVOKE_LEASE, RevokeLease(lease), **beside)


def granted(stand: Stand, ttl_ms: int = 10_000) -> int:
    """The id of a new lease."""
    return stand.do(grant(ttl_ms)).written.revision


def join(path: str, key: str, lease: int, value: Value = None, if_absent: bool = False, **beside: Any) -> Op:
    """An op that registers a member."""
    return Op(path, key, Code.REGISTER_ENTRY, RegisterEntry(MEMBER, value, if_absent=if_absent, lease=lease), **beside)


def hold(path: str, key: str, lease: int, value: Value = None, if_absent: bool = False, kind: int = VALUE) -> Op:
    """An op that registers an entry under a lease."""
    told = value if kind == VALUE else NOTHING
    return Op(path, key, Code.REGISTER_ENTRY, RegisterEntry(kind, told, if_absent=if_absent, lease=lease))


def set_gate(path: str, **declared: Any) -> Op:
    """An op that declares the gate of an environment."""
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_gates=(Gate("g", **declared),)))


def begin(path: str, count: int | None = None) -> Op:
    """An op that begins a generation."""
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("g", count)))


def kept(stand: Stand, *leases: int) -> Kept:
    """What a keep-alive is answered."""
    answers: list[Kept] = []
    stand.world.leasing.keep(leases, answers.append)
    stand.clock.settle()
    assert len(answers) == 1
    return answers[0]


def living(stand: Stand) -> dict[int, LeaseState]:
    """The living leases."""
    return {state.id: state for state in stand.world.leasing.list_living()}


def ends(stand: Stand) -> list[tuple[str, str]]:
    """Ids of leases that have ended, and why, from the log."""
    rows = [row for row in stand.rows() if row[1] == EventType.LEASE_ENDED]
    return [(key, json.loads(value.text)["why"]) for _, _, _, key, value in rows]


def events(stand: Stand, *types: EventType) -> list[tuple[int, str, str]]:
    """Revision, path and key of rows of some types."""
    return [(revision, path, key) for revision, type_, path, key, _ in stand.rows() if type_ in types]

"""Declarations as the JSON documents that events of environments carry.

Everybody who is told the event is told all of it, so it holds nothing that only some may know: neither the grants, nor
whose members a gate waits for, nor where the participants of a clock are.
"""

import json
from dataclasses import replace
from typing import Any, Final

from env_server.model.clock_forms import clock_form
from env_server.model.environments import Aggregate, Declaration, Function, Gate
from env_server.model.space_forms import space_form
from env_server.model.values import Json

FIELDS: Final = ("labels", "config", "aggregates", "gates", "grants", "clock", "space")
"""Names of the parts that an update can change, in `changed_fields`."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def document_of(declaration: Declaration) -> Json:
    """What the declaration says; config and schema stand in it byte for byte."""
    labels = dict(sorted(declaration.labels.items()))  # the log does not keep their order
    parts = [
        f'{{"kind":{_encode(declaration.kind)},"labels":{_encode(labels)},"config":'.encode(),
        declaration.config.text,
    ]
    if declaration.schema is not None:
        parts += [b',"entry_schema":', declaration.schema.text]
    aggregates = {aggregate.name: _aggregate_form(aggregate) for aggregate in declaration.aggregates}
    gates = {gate.name: _gate_form(gate) for gate in declaration.gates}
    parts.append(f',"aggregates":{_encode(aggregates)},"gates":{_encode(gates)}'.encode())
    if declaration.clock is not None:
        clock = replace(declaration.clock, participants_path="")
        parts.append(f',"clock":{_encode(clock_form(clock))}'.encode())
    if declaration.space is not None:
        parts.append(f',"space":{_encode(space_form(declaration.space))}'.encode())
    if declaration.lease:
        parts.append(b',"lease_id":%d' % declaration.lease)
    return Json(b"".join((*parts, b"}")))


def _aggregate_form(aggregate: Aggregate) -> dict[str, Any]:
    form: dict[str, Any] = {"function": aggregate.function.name.lower(), "scope": aggregate.scope.name.lower()}
    if aggregate.in_generation:
        form["in_generation"] = True
    if aggregate.function is Function.HISTOGRAM:
        form["bounds"] = aggregate.bounds
    if aggregate.field:
        form["field"] = aggregate.pointer
    return form


def _gate_form(gate: Gate) -> dict[str, Any]:
    return {
        "count_target": gate.count_target,
        "deadline_ms": gate.deadline_ms,
        "all_live_members": bool(gate.members_path),
    }

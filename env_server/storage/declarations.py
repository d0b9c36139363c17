"""JSON form of declarations, in records and in the environments table.

Config and schema stand in it as text, because their bytes are kept as given. Defaults are left out.
"""

import json
from typing import Any

from env_server.model.clock_forms import clock_form, clock_of
from env_server.model.environments import (
    BASIC,
    EMPTY_CONFIG,
    Access,
    Aggregate,
    Declaration,
    Function,
    Gate,
    GateCause,
    Grant,
    Scope,
)
from env_server.model.space_forms import space_form, space_of
from env_server.model.values import Json

_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def encode_declaration(declaration: Declaration) -> bytes:
    """The declaration as JSON, never empty."""
    form: dict[str, Any] = {}
    if declaration.kind != BASIC:
        form["kind"] = declaration.kind
    if declaration.labels:
        form["labels"] = declaration.labels
    if declaration.config.text != EMPTY_CONFIG.text:
        form["config"] = text_of(declaration.config)
    if declaration.schema is not None:
        form["schema"] = text_of(declaration.schema)
    if declaration.aggregates:
        form["aggregates"] = [_aggregate_form(aggregate) for aggregate in declaration.aggregates]
    if declaration.gates:
        form["gates"] = [_gate_form(gate) for gate in declaration.gates]
    if declaration.grants:
        form["grants"] = [[grant.group, int(grant.access)] for grant in declaration.grants]
    if declaration.clock is not None:
        form["clock"] = clock_form(declaration.clock)
    if declaration.lease:
        form["lease"] = declaration.lease
    if declaration.space is not None:
        form["space"] = space_form(declaration.space)
    return _encode(form).encode()


def decode_declaration(data: bytes) -> Declaration:
    """The declaration that was encoded.

    Raises:
        ValueError, KeyError, TypeError: it was not; the caller knows which row to blame.
    """
    form = json.loads(data)
    return Declaration(
        kind=form.get("kind", BASIC),
        labels=form.get("labels", {}),
        config=json_of(form["config"]) if "config" in form else EMPTY_CONFIG,
        schema=json_of(form["schema"]) if "schema" in form else None,
        aggregates=tuple(_aggregate_of(part) for part in form.get("aggregates", ())),
        gates=tuple(_gate_of(part) for part in form.get("gates", ())),
        grants=tuple(Grant(group, Access(access)) for group, access in form.get("grants", ())),
        lease=form.get("lease", 0),
        clock=clock_of(form["clock"]) if "clock" in form else None,
        space=space_of(form["space"]) if "space" in form else None,
    )


def text_of(document: Json) -> str:
    """The bytes of a document as a string that JSON can carry, lone surrogates included."""
    return document.text.decode("utf-8", "surrogatepass")


def json_of(text: str) -> Json:
    """The document of `text_of`."""
    return Json(text.encode("utf-8", "surrogatepass"))


def _aggregate_form(aggregate: Aggregate) -> dict[str, Any]:
    form: dict[str, Any] = {"name": aggregate.name, "function": int(aggregate.function), "scope": int(aggregate.scope)}
    if aggregate.in_generation:
        form["in_generation"] = True
    if aggregate.bounds:
        form["bounds"] = aggregate.bounds
    if aggregate.field:
        form["field"] = aggregate.field
    return form


def _aggregate_of(form: dict[str, Any]) -> Aggregate:
    return Aggregate(
        name=form["name"],
        function=Function(form["function"]),
        scope=Scope(form["scope"]),
        in_generation=form.get("in_generation", False),
        bounds=tuple(form.get("bounds", ())),
        field=tuple(form.get("field", ())),
    )


def _gate_form(gate: Gate) -> dict[str, Any]:
    form: dict[str, Any] = {"name": gate.name}
    for name in ("count_target", "deadline_ms", "generation", "begin_revision", "open_revision"):
        if number := getattr(gate, name):
            form[name] = number
    if gate.opened:
        form["opened"] = True
    if gate.members_path:
        form["members_path"] = gate.members_path
    if gate.cause:
        form["cause"] = int(gate.cause)
    return form


def _gate_of(form: dict[str, Any]) -> Gate:
    return Gate(
        name=form["name"],
        count_target=form.get("count_target", 0),
        deadline_ms=form.get("deadline_ms", 0),
        generation=form.get("generation", 0),
        opened=form.get("opened", False),
        cause=GateCause(form.get("cause", 0)),
        begin_revision=form.get("begin_revision", 0),
        open_revision=form.get("open_revision", 0),
        members_path=form.get("members_path", ""),
    )

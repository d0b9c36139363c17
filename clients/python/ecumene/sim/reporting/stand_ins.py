"""Whether what stood in for models made the figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ecumene.sim.specs.rule_players import RULE_PARAMETERS

NO_REPRODUCTION = "This checks arithmetic and pipeline; it reproduces nobody's behaviour."


def describe_stand_ins(spec: Mapping[str, Any], models: Sequence[str]) -> str:
    """What must be said at the top of a report; empty if nothing.

    Reads the spec as it was recorded, which need not be one that this version knows. `models`: those that were asked.
    """
    groups = [group for group in _read_list(spec, "population", "groups") if isinstance(group, Mapping)]
    rules = [str(group.get("name")) for group in groups if group.get("agent") in RULE_PARAMETERS]
    scripted = [name for name in models if name in _list_scripted(spec)]
    told = []
    if rules:
        who = "All agents are" if len(rules) == len(groups) else f"The agents of {', '.join(rules)} are"
        told.append(f"{who} rule agents that stand in for models or people.")
    if scripted:
        told.append(f"Answers of {', '.join(scripted)} are scripted: no model was asked for them.")
    if told:
        return " ".join([*told, NO_REPRODUCTION])
    return "" if models else "Here no model was asked: the agents follow rules."


def _list_scripted(spec: Mapping[str, Any]) -> set[str]:
    """Names of models whose answers are written in the spec, as records name them."""
    given = spec.get("models") if isinstance(spec.get("models"), Mapping) else {}
    named = {**(given or {}), "": spec.get("model")}
    found = set()
    for name, model in named.items():
        if isinstance(model, Mapping) and model.get("provider") == "scripted":
            found |= {name, str(model.get("name"))}
    # A spec that names no model asks the scripted one.
    return found if any(named.values()) else {"scripted"}


def _read_list(spec: Mapping[str, Any], *names: str) -> list[Any]:
    """A list in a document that may be of any shape; empty if there is none."""
    found: Any = spec
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return list(found) if isinstance(found, list | tuple) else []

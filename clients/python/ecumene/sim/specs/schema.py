"""The published JSON schema of specs, for editors and for programs that write specs."""

from __future__ import annotations

import json

from ecumene.sim.specs.spec import RunSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def dump_schema() -> str:
    """The schema as JSON text; descriptions are those of the sections' docstrings."""
    schema = {"$schema": DIALECT, **RunSpec.model_json_schema(mode="validation"), "title": "Spec of an Ecumene run"}
    return json.dumps(schema, indent=1, ensure_ascii=False, default=str) + "\n"

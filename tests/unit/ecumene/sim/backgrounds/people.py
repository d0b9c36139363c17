"""Small populations with backgrounds, for tests."""

from __future__ import annotations

from typing import Any

from ecumene.sim.specs.spec import RunSpec, parse_spec

ATTRIBUTES = {
    "age": {"integers": {"low": 20, "high": 80}},
    "gender": {"categories": {"female": 0.5, "male": 0.5}},
    "city": {"values": ["東京", "Łódź", "{age}"]},
}


def make_spec(size: int = 6, *, seed: int = 1, model: dict[str, Any] | None = None, **backgrounds: Any) -> RunSpec:
    """A spec of a group `a`, and of rule agents `b`, a third of all."""
    return parse_spec(
        {
            "name": "people",
            "seed": seed,
            "population": {
                "size": size,
                "groups": [
                    {"name": "a", "agent": "prompted", "share": "2/3"},
                    {"name": "b", "agent": "random", "share": "1/3"},
                ],
                "attributes": ATTRIBUTES,
                "backgrounds": backgrounds,
            },
            **({"model": model} if model else {}),
        }
    )

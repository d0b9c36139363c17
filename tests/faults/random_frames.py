"""Frames of random ops over a small tree: every kind of entry, change and declaration, alone and in transactions."""

from __future__ import annotations

import random
from typing import Any

from env_api.v1 import operations_pb2 as operations
from env_api.v1 import session_pb2, values_pb2

PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/z", "/a/x/q"]
KEYS = [*(f"k{number}" for number in range(12)), "日本", "k" * 127]
AGGREGATES = {
    "count": values_pb2.Aggregate(name="count", function=values_pb2.AGGREGATE_FUNCTION_COUNT),
    "sum": values_pb2.Aggregate(name="sum", function=values_pb2.AGGREGATE_FUNCTION_SUM),
    "mean": values_pb2.Aggregate(name="mean", function=values_pb2.AGGREGATE_FUNCTION_MEAN),
    "min": values_pb2.Aggregate(name="min", function=values_pb2.AGGREGATE_FUNCTION_MIN),
    "max": values_pb2.Aggregate(name="max", function=values_pb2.AGGREGATE_FUNCTION_MAX),
    "round": values_pb2.Aggregate(name="round", function=values_pb2.AGGREGATE_FUNCTION_MEAN, in_generation=True),
    "field": values_pb2.Aggregate(name="field", function=values_pb2.AGGREGATE_FUNCTION_MEAN, field="/n"),
}
_DOCUMENTS = [b'{"n":1}', b'{"n":2.5,"l":[1,2]}', b"[3]", b'{"n":"x"}', b'{"n":1' + b"0" * 30 + b"}"]
_PATCHES = [b'{"n":5}', b'{"n":null}', b'{"m":{"z":1}}']
_VALUES: list[Any] = [
    *({"int_value": number} for number in (0, 1, -5, 2**62, 2**63 - 1, -(2**63))),
    *({"double_value": number} for number in (0.1, -0.0, 1e300, 5e-324, 1e16)),
    *({"string_value": text} for text in ("x", "é" * 10, "long" * 700)),
    *({"bytes_value": data} for data in (b"", b"\0\xff" * 1000)),
    *({"json_value": text} for text in _DOCUMENTS),
    {"null_value": True},
    {"bool_value": False},
]

Action = tuple[str, dict[str, Any]]


def make_frame(rng: random.Random, seq: int) -> session_pb2.OpFrame:
    """Up to 40 ops, every eighth of them a transaction."""
    frame = session_pb2.OpFrame(seq=seq, paths=PATHS)
    for _ in range(rng.randrange(1, 40)):
        if rng.random() < 0.12:
            writes = []
            for _ in range(rng.randrange(1, 8)):
                key, action = _action(rng)
                writes.append(operations.Write(path=rng.choice(PATHS), key=key, **action))
            frame.ops.add(transact=operations.Transact(writes=writes))
        else:
            key, action = _action(rng)
            frame.ops.add(path=rng.randrange(len(PATHS)), key=key, **action)
    return frame


def _action(rng: random.Random) -> Action:
    kind = rng.random()
    if kind < 0.2:
        return "", _environment_action(rng)
    key = rng.choice(KEYS)
    if kind < 0.35:
        return "s" + key, _stream_action(rng)
    if kind < 0.45:
        change: dict[str, Any] = {"add_int": rng.choice([1, -1, 2**62])} if rng.random() < 0.6 else {"add_double": 0.3}
        return "c" + key, {"update": operations.Update(**change)}
    if kind < 0.55:
        return key, {"delete": operations.Delete(if_present=rng.random() < 0.5)}
    if kind < 0.6:
        return key, {"update": operations.Update(merge_json=rng.choice(_PATCHES))}
    if kind < 0.63:
        return key, {"register": operations.Register(entry_kind=rng.choice([1, 2]), if_absent=rng.random() < 0.5)}
    return key, {"update": operations.Update(set=_value(rng))}


def _stream_action(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.7:
        return {"update": operations.Update(append=_value(rng))}
    if kind < 0.85:
        return {"register": operations.Register(entry_kind=3, stream_items_max=rng.choice([1, 2, 5]))}
    return {"delete": operations.Delete(if_present=True)}


def _environment_action(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    gate = values_pb2.Gate(name="g", count_target=rng.choice([0, 1, 3, 5]), deadline_ms=rng.choice([0, 0, 30, 200]))
    if kind < 0.4:
        register = operations.Register(aggregates=AGGREGATES.values(), gates=[gate], labels={"l": "v"})
        return {"register": register}
    if kind < 0.43:
        return {"delete": operations.Delete(recursive=rng.random() < 0.7)}
    update = operations.EnvironmentUpdate()
    if kind < 0.8:
        update.begin_generation.gate = "g"
    elif kind < 0.85:
        update.set_gates.append(gate)
    elif kind < 0.9:
        update.open_gate.gate, update.open_gate.generation = "g", rng.randrange(1, 5)
    else:
        update.set_aggregates.extend(list(AGGREGATES.values())[: rng.randrange(1, 7)])
        update.merge_config_json = b'{"a":1}'
    return {"update": operations.Update(environment=update)}


def _value(rng: random.Random) -> values_pb2.Value:
    if rng.random() < 0.3:
        return values_pb2.Value(double_value=rng.uniform(-100, 100))
    return values_pb2.Value(**rng.choice(_VALUES))

"""The log as lines: every event once, in order, and damage told between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lmdb
import pytest

from env_server.model.errors import RevisionCompacted
from env_server.model.limits import MIB
from env_server.offline.dump_log import dump_log
from env_server.storage import layout
from env_server.storage.errors import DataLoss
from tests.stored_worlds import told_then, unpack_world


def lines_of(world: Path, first: int = 0, last: int = 0, everything: bool = False) -> list[dict[str, Any]]:
    lines = list(dump_log(world, first, last, everything))
    assert not any(isinstance(line, DataLoss) for line in lines)
    return json.loads(json.dumps(lines))  # type: ignore[no-any-return]


def test_every_event_is_a_line(tmp_path: Path) -> None:
    world = unpack_world(1, "whole", tmp_path)
    events = told_then(1, "whole")["events"]
    lines = lines_of(world)
    assert [(line["revision"], line["path"], line.get("key", ""), line["version"]) for line in lines] == [
        (revision, path, key, version) for revision, _, path, key, _, version, _, _ in events
    ]
    assert len({(line["revision"], line["index"]) for line in lines}) == len(lines), "an id of its own for each"
    registered = next(line for line in lines if line["path"] == "/town")
    assert registered["type"] == "environment_registered"
    assert json.loads(registered["declaration"])["labels"] == {"läuft": "ja", "size": "small"}
    assert registered["time"] == "1970-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize(("first", "last"), [(1, 1), (5, 40), (100, 0), (177, 177)])
def test_a_range_is_exact_also_within_a_record(tmp_path: Path, first: int, last: int) -> None:
    world = unpack_world(1, "whole", tmp_path)
    wanted = [line for line in lines_of(world) if first <= line["revision"] <= (last or 177)]
    assert lines_of(world, first, last) == wanted
    assert wanted


def test_what_is_no_event_is_told_when_asked(tmp_path: Path) -> None:
    world = unpack_world(1, "whole", tmp_path)
    lines = lines_of(world, everything=True)
    assert any(
        "GATE_CLOSED" in line["outcome"] or '"reason":81' in line["outcome"] for line in lines if "outcome" in line
    )
    assert {line["client"] for line in lines if "answer" in line} == {"client-1", "client-2", "client-3"}


def test_a_compacted_start_is_an_error(tmp_path: Path) -> None:
    world = unpack_world(1, "trimmed", tmp_path)
    with pytest.raises(RevisionCompacted, match="the oldest is 183"):
        list(dump_log(world, 182, 0, False))
    assert lines_of(world, 183)[0]["revision"] == 183
    assert lines_of(world) == lines_of(world, 183)


def test_a_damaged_record_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    world = unpack_world(1, "whole", tmp_path)
    with lmdb.open(str(world), map_size=64 * MIB, max_dbs=16) as env:
        log = env.open_db(layout.LOG.encode())
        with env.begin(write=True) as transaction:
            key, value = list(transaction.cursor(log))[9]
            transaction.put(key, value[:-1] + bytes((value[-1] ^ 1,)), db=log)
    lines = list(dump_log(world, 0, 0, False))
    damage = [line for line in lines if isinstance(line, DataLoss)]
    assert [error.problem for error in damage] == ["the checksum of log record 10 does not match"]
    assert {line["record"] for line in lines if isinstance(line, dict)} >= {9, 11}

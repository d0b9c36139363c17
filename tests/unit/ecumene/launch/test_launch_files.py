"""Launch descriptions in files: every path in them counts from the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.launch.errors import LaunchFileError
from ecumene.launch.launch_files import read_launch


def write(folder: Path, **more: Any) -> Path:
    table = pa.table({"agent_id": ["a", "b"]})
    with pa.OSFile(str(folder / "agents.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    path = folder / "launch.json"
    path.write_text(json.dumps({"run": "r", "groups": [{"name": "g", "agents": "agents.arrow"}], **more}))
    return path


def test_every_path_counts_from_the_file(tmp_path: Path) -> None:
    models = {
        "m": {"cache": "c", "api_key_file": "keys/m", "endpoints": [{"api_key_file": "/keys/e"}, {"api_key_env": "E"}]},
        "again": {"replay_from": "../old"},
    }
    document, agents = read_launch(write(tmp_path, recording="rec", models=models))
    assert document["recording"] == str(tmp_path / "rec")
    assert document["models"]["m"] == {
        "cache": str(tmp_path / "c"),
        "api_key_file": str(tmp_path / "keys/m"),
        "endpoints": [{"api_key_file": "/keys/e"}, {"api_key_env": "E"}],
    }
    assert document["models"]["again"]["replay_from"] == str(tmp_path / "../old")
    assert agents["g"].rows == 2


def test_what_is_no_path_is_left_for_the_node_to_refuse(tmp_path: Path) -> None:
    more: dict[str, Any] = {"recording": 5, "models": {"m": {"cache": 7, "endpoints": 3}, "n": None}}
    document, _ = read_launch(write(tmp_path, **more))
    assert {name: document[name] for name in more} == more


WRONG = {
    "[": "no launch description",
    "[" * 100_000: "no launch description",
    '{"groups": NaN}': "no launch description",
    '{"run": "\\ud800", "groups": []}': "no launch description",
    "[]": "groups: is no list",
    '{"groups": 5}': "groups: is no list",
    '{"groups": [5]}': r"groups\.0: is no object",
    **{
        f'{{"groups": [{{"name": "g", "agents": "g.arrow", "{field}": {value}}}]}}': rf"groups\.0\.{field}: is no "
        for field, value in (
            *(("name", "5"), ("agents", "5"), ("agents", '"a\\u0000b"'), ("agents", "null"), ("node_labels", "5")),
            *(("rows", "[0]"), ("rows", '"ab"'), ("rows", "[-5, 9]"), ("rows", "[5, 2]"), ("rows", "[0.5, 2]")),
            *(("parts", '"x"'), ("parts", "0"), ("parts", "true")),
        )
    },
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_description_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "launch.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LaunchFileError, match=WRONG[text]) as refused:
        read_launch(path)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    assert refused.value.exit_code == 2

"""The command that writes backgrounds is killed with -9: what is finished is never asked for again."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from ecumene.sim.backgrounds.languages import find_language
from ecumene.sim.backgrounds.records import FLAGGED, STATUSES

from agent_runtime.agents.ready.echoes import find_missing

_PROGRESS = re.compile(r"writing[^:]*: ([\d,]+) of")
PEOPLE = 200
ENGLISH = {
    "attributes": {
        "age": {"template": "age"},
        "gender": {"template": "gender"},
        "occupation": {"values": ["nurse", "clerk", "farmer", "teacher", "carpenter", "engineer"]},
    },
    "backgrounds": {"language": "English"},
}
GERMAN = {
    "attributes": {
        "Alter": {"template": "age"},
        "Geschlecht": {"categories": {"weiblich": 0.5, "männlich": 0.5}},
        "Beruf": {"values": ["Krankenpfleger", "Bäcker", "Landwirt", "Lehrer", "Tischler", "Ingenieur"]},
    },
    "backgrounds": {"language": "German", "prompt": "background-1-german"},
}


def write_spec(folder: Path, *, size: int, model: dict[str, Any], seed: int, told: dict[str, Any]) -> Path:
    document = {
        "name": "people",
        "seed": seed,
        "population": {
            "size": size,
            "groups": [{"name": "all", "agent": "prompted", "share": 1}],
            "attributes": told["attributes"],
            "backgrounds": {"file": str(folder / "people.parquet"), **told["backgrounds"]},
        },
        "model": model,
    }
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    return path


async def write(spec: Path, *, kill_at: int | None = None, timeout_s: float = 120.0) -> dict[str, Any]:
    """Run the command; with `kill_at`, until so many texts are told, and then no longer."""
    command = (sys.executable, "-m", "ecumene.cli", "background", str(spec), "--json")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines = []
    try:
        async with asyncio.timeout(timeout_s):
            async for line in process.stderr:
                lines.append(line.decode())
                found = _PROGRESS.match(lines[-1])
                if kill_at is not None and found and int(found[1].replace(",", "")) >= kill_at:
                    process.kill()
                    break
            out = await process.stdout.read()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if kill_at is not None:
        assert code == -signal.SIGKILL, lines
        return {}
    assert code == 0, lines
    return json.loads(out)  # type: ignore[no-any-return]


def read_kept(folder: Path) -> dict[str, str]:
    """What is finished: key -> document."""
    with sqlite3.connect(folder / "people.parquet.cache") as database:
        return dict(database.execute("SELECT key, document FROM written"))


def check_people(folder: Path, size: int, language: str) -> list[dict[str, Any]]:
    """Everybody is there, and is complete or flagged with a reason."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "people.parquet").to_pylist()
    assert [row["agent"] for row in rows] == [f"agent-{number:06d}" for number in range(1, size + 1)]
    words = find_language(language).words
    for row in rows:
        assert row["status"] in STATUSES
        missing = find_missing(json.loads(row["attributes"]), row["background"], words)
        assert list(missing) == row["missing"], row
        assert (row["status"] == FLAGGED) == bool(row["missing"] or row["remark"]), row
        assert row["background"] or row["remark"], row
    return rows


async def test_a_command_that_is_killed_goes_on_without_asking_again(tmp_path: Path, seed: int) -> None:
    """And it comes to what it would have come to."""
    size = 60
    model = {"latency_ms": 400, "in_flight_max": 4}
    folders = [tmp_path / "killed", tmp_path / "whole"]
    for folder in folders:
        folder.mkdir()
        write_spec(folder, size=size, model=model if folder.name == "killed" else {}, seed=seed, told=ENGLISH)
    kept: dict[str, str] = {}
    for kill_at in (8, 30):
        await write(folders[0] / "spec.yaml", kill_at=kill_at)
        now = read_kept(folders[0])
        assert len(now) >= max(kill_at, len(kept))
        assert now.items() >= kept.items(), "what was finished stays as it was"
        kept = now
    assert len(kept) < size, "it was killed too late to mean anything"
    told = await write(folders[0] / "spec.yaml")
    assert told["kept"] >= len(kept)
    assert told["kept"] + told["written"] >= size
    assert read_kept(folders[0]).items() >= kept.items()
    assert not (folders[0] / "people.parquet.work").exists()
    check_people(folders[0], size, "English")
    await write(folders[1] / "spec.yaml")
    one, other = (pq.read_table(folder / "people.parquet") for folder in folders)
    assert one.equals(other), "kills change nothing of what is written"
    again = await write(folders[0] / "spec.yaml")
    assert (again["written"], again["prompt_tokens"]) == (0, 0)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(("language", "told"), [("English", ENGLISH), ("German", GERMAN)], ids=["English", "German"])
async def test_two_hundred_people_by_the_packaged_model(
    tmp_path: Path, seed: int, language: str, told: dict[str, Any], record_property: Any
) -> None:
    """Each is complete or flagged, and a kill in the middle costs nothing that is finished."""
    # One thread: two of llama.cpp's wait for each other in busy loops wherever anything else runs. One slot: answers in
    # a form take more of a core side by side than one after the other.
    model = {"provider": "local", "name": "smollm2", "max_tokens": 120, "slots": 1, "threads": 1, "timeout_s": 900}
    told = {**told, "backgrounds": {**told["backgrounds"], "repairs": 1, "redos": 1}}
    spec = write_spec(tmp_path, size=PEOPLE, model=model, seed=seed, told=told)
    await write(spec, kill_at=PEOPLE // 3, timeout_s=3_600)
    kept = read_kept(tmp_path)
    assert PEOPLE // 6 <= len(kept) < PEOPLE, "texts that failed are none that are finished"
    outcome = await write(spec, timeout_s=3_600)
    assert outcome["kept"] >= len(kept)
    assert read_kept(tmp_path).items() >= kept.items()
    rows = check_people(tmp_path, PEOPLE, language)
    for name in ("statuses", "flagged", "diversity"):
        record_property(name, json.dumps(outcome[name]))
    assert outcome["statuses"]["complete"] + outcome["statuses"]["repaired"] > 0, "even this model can"
    assert len({row["background"] for row in rows if row["background"]}) > PEOPLE / 2

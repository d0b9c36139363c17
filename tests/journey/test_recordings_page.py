"""docs/recordings.md: its columns are those of the tables, and its lines read a run as a crash leaves it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.cli.app import main
from ecumene.client.records import TABLES, Table, list_parts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recordings.md"
SPEC = """
name: read
seed: 3
population:
  groups:
    - {name: asked, agent: prompted, count: 6}
    - {name: rules, agent: level-k, parameters: {level: 2}, count: 4}
game: {rounds: 2}
recording: {directory: runs}
"""


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A recorded run, its first part of each table twice, as after a crash, and a part that was being written."""
    folder = tmp_path_factory.mktemp("page")
    spec = folder / "read.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    command = [sys.executable, "-m", "ecumene.cli", "run", str(spec), "--out", str(folder / "runs")]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    (directory,) = (folder / "runs").iterdir()
    for table in TABLES:
        for part in list(list_parts(directory, table))[:1]:
            later = part.with_name(part.name.replace("-000001", "-000009"))
            pq.write_table(pq.read_table(part).slice(0, 3), later)
    (directory / ".staging").mkdir(exist_ok=True)
    (directory / ".staging" / "turns.x-000001.parquet").write_bytes(b"PAR1 torn")
    yield directory


def list_blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("place", range(4))
def test_the_lines_of_the_page_run(run_directory: Path, place: int) -> None:
    blocks = list_blocks("python")
    assert len(blocks) == 4
    code = blocks[place].replace("RUN", str(run_directory))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\bok\b|agent-000010", done.stdout)
    if place == 1:
        assert "20 rows" in done.stdout


def test_the_commands_of_the_page_run(run_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in "".join(list_blocks("sh")).splitlines():
        words = line.partition("#")[0].split()
        assert main([str(run_directory) if word == "RUN" else word for word in words[1:]]) == 0
    made = {path.name for path in (tmp_path / "tables").iterdir()}
    assert made == {f"{table.name}.{suffix}" for table in TABLES for suffix in ("csv", "jsonl")} | {"turns.parquet"}
    assert pq.read_metadata(tmp_path / "tables" / "turns.parquet").num_rows == 20


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_columns_of_the_page_are_those_of_the_tables(table: Table) -> None:
    ids = ", ".join(f"`{name}`" for name in table.ids)
    rows = [f"| `{one.name}`{' ∅' if one.nullable else ''} | {one.kind} | {one.meaning} |" for one in table.columns]
    text = "\n".join(
        [f"### {table.name}", "", f"Named by {ids}.", "", "| column | kind | meaning |", "|---|---|---|", *rows]
    )
    assert text in PAGE.read_text(encoding="utf-8")
    assert isinstance(table.schema, pa.Schema)

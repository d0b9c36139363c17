"""The file of backgrounds: one row a person, in the order of the population."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.client.errors import EcumeneError
from ecumene.client.records.whole_files import replace_whole

COMPLETE, REPAIRED, FLAGGED = "complete", "repaired", "flagged"
STATUSES = (COMPLETE, REPAIRED, FLAGGED)
SCHEMA = pa.schema(
    [
        pa.field("agent", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("background", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("missing", pa.list_(pa.string()), nullable=False),
        pa.field("remark", pa.string(), nullable=False),
        pa.field("tries", pa.int32(), nullable=False),
        pa.field("answers", pa.int32(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("temperature", pa.float64()),
        pa.field("seed", pa.int64()),
        pa.field("prompt_tokens", pa.int64(), nullable=False),
        pa.field("completion_tokens", pa.int64(), nullable=False),
        pa.field("attributes", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
    ]
)
METADATA = b"ecumene.backgrounds"


@dataclass(frozen=True, slots=True)
class Background:
    """Who one agent is.

    Attributes:
        name: that the model gave; "" = none.
        background: the text; "" = there is none, and `remark` says why.
        status: `complete` = it tells all attributes, as it was first written; `repaired` = it was asked for again, or
            written anew, and does now; `flagged` = it lacks some, is too much like another's, or is not there.
        missing: names of the attributes that it does not tell.
        remark: why it is flagged, if that is not what is missing.
        tries: texts that were begun anew. answers: that the model gave, over all tries.
        model, temperature, seed: with which it was written.
        prompt_tokens, completion_tokens: that it took, over all tries.
        attributes: what was to be told, as JSON.
        key: by which it is cached.
    """

    agent: str
    group: str
    name: str
    background: str
    status: str
    missing: tuple[str, ...]
    remark: str
    tries: int
    answers: int
    model: str
    temperature: float | None
    seed: int | None
    prompt_tokens: int
    completion_tokens: int
    attributes: str
    key: str


class BackgroundsFileError(EcumeneError):
    """A file that holds no backgrounds, or cannot be read."""

    exit_code = 2

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def write_backgrounds_file(path: Path, backgrounds: Sequence[Background], about: Mapping[str, Any]) -> None:
    """Write all rows, whole or not at all; `about`: what is said of them together. Raises OSError."""
    rows = [asdict(background) for background in backgrounds]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    told = json.dumps(dict(about), ensure_ascii=False).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_whole(path) as unfinished:
        pq.write_table(table.replace_schema_metadata({METADATA: told}), unfinished)


def read_backgrounds_table(path: Path) -> pa.Table:
    """All rows. Raises BackgroundsFileError."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise BackgroundsFileError(path, f"cannot be read: {' '.join(str(error).split())[:200]}") from error
    if lacking := [name for name in SCHEMA.names if name not in table.column_names]:
        raise BackgroundsFileError(path, f"holds no backgrounds: there is no column {lacking[0]}")
    return table


def read_about(path: Path) -> dict[str, Any]:
    """What is said of all rows of a file together. Raises BackgroundsFileError."""
    told = read_backgrounds_table(path).schema.metadata or {}
    about: dict[str, Any] = json.loads(told.get(METADATA, b"{}"))
    return about

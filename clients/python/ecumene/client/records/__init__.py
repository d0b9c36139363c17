"""What a run leaves on disk: tables, part files, the manifest.

A run's directory:

    manifest.json                    who, what, when: RunManifest
    turns/<source>-<number>.parquet  one row a turn        TURNS
    actions/…  calls/…  events/…     likewise              ACTIONS, CALLS, EVENTS
    surveys/…                        one row an answer, of runs that ask      SURVEYS
    .staging/<source>/               parts being written; nothing that a reader needs

A source is one writer (node and worker); parts of several sources lie side by side. A part appears
whole or not at all. Reading: `pyarrow.dataset.dataset(run / "turns")`, or `list_parts`.

The descriptions need no package; Arrow schemas and part files need the runtime or the sim extra.
"""

from ecumene.client.records.digest import BOOKS, CUT_SHORT, RunDigest, digest_entries, digest_state, digest_turns
from ecumene.client.records.manifest import ManifestError, RunManifest, RunState, read_manifest, write_manifest
from ecumene.client.records.parts import PART_NUMBER_MAX, PartNameError, close_part, list_parts, name_part
from ecumene.client.records.reports import read_report
from ecumene.client.records.tables import (
    ACTIONS,
    CALLS,
    EVENTS,
    SCHEMA_VERSION,
    SURVEYS,
    TABLES,
    TURNS,
    Column,
    Table,
    TurnStatus,
    find_table,
)

__all__ = [
    "ACTIONS",
    "BOOKS",
    "CALLS",
    "CUT_SHORT",
    "EVENTS",
    "PART_NUMBER_MAX",
    "SCHEMA_VERSION",
    "SURVEYS",
    "TABLES",
    "TURNS",
    "Column",
    "ManifestError",
    "PartNameError",
    "RunDigest",
    "RunManifest",
    "RunState",
    "Table",
    "TurnStatus",
    "close_part",
    "digest_entries",
    "digest_state",
    "digest_turns",
    "find_table",
    "list_parts",
    "name_part",
    "read_manifest",
    "read_report",
    "write_manifest",
]

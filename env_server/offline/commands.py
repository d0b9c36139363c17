"""The command line of `ecumene offline`: tools for worlds that no server has open.

Exit codes: 0 done, and nothing is wrong; 1 something is wrong, or could not be done; 2 bad usage.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from env_server.model.errors import WorldError
from env_server.offline.directories import find_world, find_worlds
from env_server.offline.dump_log import dump_log
from env_server.offline.replay import rebuild
from env_server.offline.upgrade import upgrade
from env_server.offline.verify import Report, verify
from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
_REVISION_MAX: Final = 2**64 - 1


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns the exit code; bad usage ends the process with 2, as argparse does."""
    asked = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    command: Callable[[argparse.Namespace], int] = asked.command
    try:
        return command(asked)
    except (StorageError, WorldError) as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        return _fail(f"{error.filename or asked.directory}: {error.strerror or error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("ecumene offline", description="Tools for stored worlds that no server has open.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(
        name: str, command: Callable[[argparse.Namespace], int], summary: str, what: str
    ) -> argparse.ArgumentParser:
        part = commands.add_parser(name, help=summary, description=summary)
        part.add_argument("directory", type=Path, metavar="DIR", help=what)
        part.set_defaults(command=command)
        return part

    many = "A world's directory, or a server's --data-dir: all its worlds."
    one = "A world's directory, or a snapshot's."
    part = add("verify", _verify, "Check all that is stored of a world against itself; changes nothing.", many)
    part.add_argument("--json", action="store_true", help="One JSON object a world.")
    part.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    part = add("dump-log", _dump_log, "Print a world's events as lines of JSON.", one)
    part.add_argument("--from", type=_revision, default=0, dest="from_revision", metavar="REVISION", help="The first.")
    part.add_argument("--to", type=_revision, default=0, dest="to_revision", metavar="REVISION", help="The last.")
    part.add_argument("--all", action="store_true", help="Also what is no event: kept outcomes and answers, facts.")
    part = add("replay", _replay, "Build the state of a world again from its log alone.", one)
    part.add_argument("--through", type=_revision, default=0, metavar="REVISION", help="The last; else all there are.")
    part.add_argument("--into", type=Path, metavar="NEW", help="Make a world of it there, with a new history.")
    add("upgrade", _upgrade, "Bring worlds of earlier storage formats to the present one.", many)
    return parser


def _verify(asked: argparse.Namespace) -> int:
    if asked.here:
        report = verify(asked.directory)
        _print(json.dumps(_document(report)) if asked.json else _describe(report))
        return EXIT_DONE if report.is_whole else EXIT_FAILED
    codes = [_verify_apart(directory, asked.json) for directory in find_worlds(asked.directory)]
    return EXIT_FAILED if any(codes) else EXIT_DONE


def _verify_apart(directory: Path, as_json: bool) -> int:
    """In a process of its own: LMDB trusts the pages that it reads, and damaged ones may end the process."""
    command = [
        sys.executable,
        "-m",
        "env_server.offline.commands",
        "verify",
        "--here",
        *["--json"] * as_json,
        str(directory),
    ]
    sys.stdout.flush()
    code = subprocess.run(command, check=False).returncode
    if code >= 0:
        return code
    report = Report(directory)
    signal_name = signal.Signals(-code).name
    report.problems.add(layout.DATA_FILE, "", f"its pages are damaged: reading them ends the process ({signal_name})")
    _print(json.dumps(_document(report)) if as_json else _describe(report))
    return EXIT_FAILED


def _document(report: Report) -> dict[str, Any]:
    head = report.head
    return {
        "directory": str(report.directory),
        "whole": report.is_whole,
        "storage_format": report.storage_format,
        "history": head and head.history,
        "revision": head and head.revision,
        "first_revision": head and head.first_revision,
        "records": report.records,
        "rows": report.rows,
        "aggregates": report.aggregates,
        "state_compared_with_log": report.is_replayed,
        "problems": [problem._asdict() for problem in report.problems.told],
        "problems_count": report.problems.count,
    }


def _describe(report: Report) -> str:
    lines = [f"{report.directory}"]
    if report.head is not None:
        head = report.head
        lines.append(f"  storage format {report.storage_format}, history {head.history}, revision {head.revision}")
        rows = ", ".join(f"{count} {table}" for table, count in report.rows.items() if count)
        lines.append(f"  {report.records} records from revision {head.first_revision} on; {rows or 'no rows'}")
    for problem in report.problems.told:
        where = f"{problem.table}, {problem.key}" if problem.key else problem.table
        lines.append(f"  DAMAGED {where}: {problem.what}")
    if not report.is_whole:
        more = report.problems.count - len(report.problems.told)
        lines.append(f"  {report.problems.count} problems{f', {more} of them not shown' if more else ''}")
        lines.append("  nothing was changed: restore a snapshot, or build it again with ecumene offline replay")
    elif report.is_replayed:
        lines.append(
            f"  whole: the state is what the log tells from its beginning, {report.aggregates} aggregates exact"
        )
    else:
        lines.append(
            f"  whole, as far as can be told: the log does not reach back to the beginning, so the state was not "
            f"compared with it; {report.aggregates} aggregates exact"
        )
    return "\n".join(lines)


def _dump_log(asked: argparse.Namespace) -> int:
    code = EXIT_DONE
    for line in dump_log(find_world(asked.directory), asked.from_revision, asked.to_revision, asked.all):
        if isinstance(line, DataLoss):
            code = _fail(str(line))
        else:
            _print(json.dumps(line, ensure_ascii=False))
    return code


def _replay(asked: argparse.Namespace) -> int:
    rebuilt = rebuild(find_world(asked.directory), asked.through, asked.into, lambda: uuid.uuid4().hex)
    what = f"revision {rebuilt.revision}: {rebuilt.environments} environments, {rebuilt.entries} entries"
    _print(f"{asked.directory}: {what}, from {rebuilt.records} records")
    if asked.into is not None:
        _print(f"{asked.into}: holds it as a world of its own (history {rebuilt.history})")
    return EXIT_DONE


def _upgrade(asked: argparse.Namespace) -> int:
    for directory in find_worlds(asked.directory):
        found = upgrade(directory)
        if found == layout.FORMAT_VERSION:
            _print(f"{directory}: has storage format {found} already")
        else:
            _print(f"{directory}: upgraded from storage format {found} to {layout.FORMAT_VERSION}")
    return EXIT_DONE


def _revision(text: str) -> int:
    revision = int(text)
    if revision < 1:
        raise argparse.ArgumentTypeError("revisions begin with 1")
    if revision > _REVISION_MAX:
        raise argparse.ArgumentTypeError(f"revisions end with {_REVISION_MAX}")
    return revision


def _print(line: str) -> None:
    """A line of UTF-8; lone surrogates as JSON escapes them."""
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def _fail(problem: str) -> int:
    sys.stderr.write(f"ecumene: {problem}\n")
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())

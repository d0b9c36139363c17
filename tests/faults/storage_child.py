"""A process that writes a world without end, and tells each durable record's number on its standard output.

    python -m tests.faults.storage_child DIRECTORY [FILE_BYTES_MAX]

It goes on where the directory ends; what record n holds follows from n alone. Ends with status 74 when a commit fails.
"""

import os
import random
import resource
import sys
import threading
from pathlib import Path

from env_server.model.changes import Changes
from env_server.model.entries import VALUE, Entry
from env_server.model.limits import Limits
from env_server.model.ports import StateChunk
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.contracts.commit_log import empty_chunk, make_group

KEYS = 50
UNACKNOWLEDGED_MAX = 4
LIMITS = Limits(map_bytes=1 << 30)
FATAL_STATUS = 74


def make_record(before: Changes | None) -> Changes:
    """The record after `before`, None = the first."""
    number = before.number + 1 if before is not None else 1  # a group without rows is false
    changes = make_group([before] if before is not None else [], rows=number % 4, rng=random.Random(number))
    changes.number = number
    return changes


def make_state(number: int) -> StateChunk:
    """The chunk that is written with record `number`."""
    entry = Entry(number, 1, 1, 1, VALUE)
    return empty_chunk()._replace(entries={(1, f"key-{number % KEYS}"): entry})


def main(directory: str, file_bytes_max: str = "") -> None:
    """Writes until it is killed or fails."""
    log = LmdbCommitLog.open(Path(directory), LIMITS, lambda: "history-1")
    changes = None
    for found in log.load().records:
        changes = found
    if file_bytes_max:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_bytes_max), int(file_bytes_max)))
    free = threading.Semaphore(UNACKNOWLEDGED_MAX)

    def on_durable(number: int) -> None:
        os.write(1, f"{number}\n".encode())
        free.release(UNACKNOWLEDGED_MAX)

    def on_fatal(error: BaseException) -> None:
        os.write(1, f"fatal {type(error).__name__}\n".encode())
        os._exit(FATAL_STATUS)

    log.start(call=lambda call, argument: call(argument), on_durable=on_durable, on_fatal=on_fatal)
    os.write(1, b"started\n")
    while True:
        free.acquire()
        changes = make_record(changes)
        log.append(changes, make_state(changes.number))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Why a stored world cannot be opened, read or written. Every message says what to run; nothing is ever deleted.

StorageError
  StorageInUse          another log has the directory open
  StorageFormat         written by another version
  StorageUnreadable     the metadata makes no sense
    DataLoss            something that was acknowledged is missing or damaged
  StorageClosed         the log is not open (any more)
"""


class StorageError(Exception):
    """Base: `problem` in `directory` ("" in memory), and what an operator does about it."""

    def __init__(self, directory: str, problem: str, advice: str) -> None:
        super().__init__(f"{directory}: {problem}; {advice}" if directory else f"{problem}; {advice}")
        self.directory = directory
        self.problem = problem
        self.advice = advice


class StorageInUse(StorageError):
    """The directory is open already, in process `pid` (0 = unknown)."""

    def __init__(self, directory: str, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(directory, f"is open in {who}", "stop that server or choose another directory")
        self.pid = pid


class StorageFormat(StorageError):
    """The format `found` is not the one this version writes."""

    def __init__(self, directory: str, found: int, supported: int) -> None:
        if found > supported:
            advice = "use the version of ecumene that wrote it, or a newer one"
        else:
            advice = f"run `ecumene offline upgrade {directory}`"
        super().__init__(directory, f"has storage format {found}, this version reads {supported}", advice)
        self.found = found
        self.supported = supported


class StorageUnreadable(StorageError):
    """The metadata is missing or contradicts itself; the data is left as it is."""

    def __init__(self, directory: str, problem: str) -> None:
        where = directory or "DIRECTORY"
        super().__init__(
            directory, problem, f"nothing was changed: run `ecumene offline verify {where}`, or restore a snapshot"
        )


class DataLoss(StorageUnreadable):
    """DATA_LOSS: something that was acknowledged is missing or damaged."""

    def at(self, directory: str) -> "DataLoss":
        """The same, naming the directory."""
        return DataLoss(directory, self.problem)


class StorageClosed(StorageError):
    """The log was used before it was started or after it was closed."""

    def __init__(self, directory: str, problem: str) -> None:
        super().__init__(directory, problem, "this is a defect of the caller")

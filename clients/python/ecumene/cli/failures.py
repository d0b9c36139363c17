"""How a command ends: exit codes, and errors of one or two lines."""

from __future__ import annotations

import enum
import sys


class ExitCode(enum.IntEnum):
    """Exit codes of `ecumene`; part of its contract with scripts."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    STOPPED_BY_BUDGET = 3
    INTERRUPTED = 130


class CliError(Exception):
    """Ends a command: `message` says what and where, `hint` what to do; no traceback is shown."""

    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class UsageError(CliError):
    """The arguments make no sense together; exit code 2."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.USAGE)


class StoppedByBudget(CliError):
    """A budget ended the run before it was done; exit code 3, everything so far is kept."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.STOPPED_BY_BUDGET)


class Interrupted(CliError):
    """Ctrl-C, after a clean stop; exit code 130. `hint` is the command to resume, if there is one."""

    def __init__(self, message: str = "interrupted", *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.INTERRUPTED)


def expected_errors() -> tuple[type[Exception], ...]:
    """The errors that end a command without a traceback: ours, and the SDK's once it exists."""
    import ecumene

    sdk_error = getattr(ecumene, "EcumeneError", CliError)
    return (CliError, sdk_error)


def report(error: Exception) -> int:
    """Print an expected error on stderr, one line and at most one hint; returns its exit code."""
    message = " ".join(str(error).split()) or type(error).__name__
    print(message if message.startswith("ecumene ") else f"ecumene: {message}", file=sys.stderr)
    if hint := getattr(error, "hint", ""):
        print(f"  {hint}", file=sys.stderr)
    return int(getattr(error, "exit_code", ExitCode.FAILED))


def is_usage_error(error: Exception) -> bool:
    """Whether typer raised this because of the arguments.

    By shape, not by class: typer took click into itself in 0.26, older ones raise click's own.
    """
    return callable(getattr(error, "format_message", None)) and isinstance(getattr(error, "exit_code", None), int)


def report_usage(error: Exception) -> int:
    """Print what is wrong with the arguments and where help is; returns the exit code.

    A group called without a subcommand carries its whole help as the message: shown as it is.
    """
    message = str(error.format_message())  # type: ignore[attr-defined]
    path = getattr(getattr(error, "ctx", None), "command_path", None) or "ecumene"
    if "\n" in message.strip() or not message.strip():
        print(message, file=sys.stderr)
    else:
        print(f"{path}: {message}", file=sys.stderr)
        print(f"  try: {path} --help", file=sys.stderr)
    return int(error.exit_code)  # type: ignore[attr-defined]


def missing_extra(command_name: str, extra: str) -> CliError:
    """The error for a command whose extra is not installed; `extra` may be several, by comma."""
    return CliError(
        f"ecumene {command_name} needs the {extra} extra: pip install 'ecumene[{extra}]' (in a checkout: make install)"
    )

"""From a command line to an exit code.

Only the called subcommand is imported: the app is built from the table of `commands` with a
placeholder for every other row, so that `ecumene --help` needs neither the services nor the
simulation packages.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from ecumene.cli import failures
from ecumene.cli.commands import COMMANDS, PASS_THROUGH, Command, find_command, load_target
from ecumene.cli.failures import ExitCode


def program() -> NoReturn:
    """The command as a process. Once its outcome is said, a further Ctrl-C ends what is left of it without a word."""
    gc.disable()  # until its target is imported
    try:
        code = main()
    except KeyboardInterrupt:  # a second one, while the first was reported
        code = ExitCode.INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (by default that of this process) and return its exit code.

    Expected errors, ours and the SDK's, become one or two lines on stderr; anything else is a
    defect and keeps its traceback.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    replace_what_cannot_be_shown()
    try:
        code = dispatch(given)
        sys.stdout.flush()  # here, where a reader that has gone is expected; not when the interpreter ends
        return code
    except KeyboardInterrupt:
        return failures.report(failures.Interrupted())
    except BrokenPipeError:
        return end_unread()
    except failures.expected_errors() as error:
        return failures.report(error)


def end_unread() -> int:
    """End in silence: whoever read the output (`| head`) has seen enough. What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.FAILED


def replace_what_cannot_be_shown() -> None:
    """A character that the terminal's encoding lacks becomes a question mark instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def dispatch(arguments: list[str]) -> int:
    """Run the subcommand that the arguments name; usage errors are already reported."""
    selected = find_command(next((word for word in arguments if not word.startswith("-")), ""))
    if selected and selected.name in PASS_THROUGH and arguments[0] == selected.name:
        return int(load_for_good(selected)(arguments[1:]) or 0)
    click_command = typer.main.get_command(build_app(selected))
    try:
        outcome = click_command(arguments, prog_name="ecumene", standalone_mode=False)
    except typer.Abort:
        return failures.report(failures.Interrupted("aborted"))
    except Exception as error:
        if not failures.is_usage_error(error):
            raise
        return failures.report_usage(error)
    return outcome if isinstance(outcome, int) else ExitCode.DONE


def build_app(selected: Command | None) -> typer.Typer:
    """The whole app, with the selected subcommand loaded and the others as names and summaries."""
    app = typer.Typer(name="ecumene", add_completion=False, help="Worlds for societies of agents.")
    app.callback()(root)
    for command in COMMANDS:
        attach(app, command, load_for_good(command) if command is selected else placeholder)
    return app


def load_for_good(command: Command) -> Any:
    """Import a target. All that is imported stays: a collector that looks through it again and again is a quarter of
    the start, so `program` turns it off, and it never looks at what is there when it is turned on here."""
    target = load_target(command)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    return target


def attach(app: typer.Typer, command: Command, target: Callable[..., Any] | typer.Typer) -> None:
    """Add a target under its row's name and summary."""
    if isinstance(target, typer.Typer):
        app.add_typer(target, name=command.name, help=command.summary)
    else:
        app.command(command.name, help=command.summary)(target)


def placeholder() -> None:
    """Stands for a subcommand that this call does not run."""


def show_version(wanted: bool) -> None:
    """Print the version and end, if `--version` was given."""
    if wanted:
        from ecumene.cli.version import find_version

        print(f"ecumene {find_version('ecumene')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Worlds for societies of language-model agents."""

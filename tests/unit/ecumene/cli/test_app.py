"""Command lines in, exit codes and short messages out."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import types

import ecumene
import pytest
import typer
from ecumene.cli import app, commands, failures

HEAVY = ("env_server", "agent_runtime", "matplotlib", "pyarrow", "numpy", "aiohttp", "lmdb", "xllamacpp")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with a command in the table: `ecumene planted`."""
    module = types.ModuleType("planted_command")
    monkeypatch.setitem(sys.modules, "planted_command", module)
    row = commands.Command("planted", "planted_command:run", "A planted one.", "sim")
    monkeypatch.setattr(commands, "COMMANDS", (*commands.COMMANDS, row))
    monkeypatch.setattr(app, "COMMANDS", commands.COMMANDS)
    return module


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from ecumene.cli import main; code = main(['--help']);"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules], code)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    assert "HEAVY [] 0" in shown
    assert all(f" {row.name} " in shown for row in commands.COMMANDS)


def test_a_run_begins_without_what_draws_its_picture() -> None:
    code = "import sys; import ecumene.cli.run; print('matplotlib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    assert shown == "False\n"


def test_what_a_command_imports_is_never_looked_through_and_what_it_makes_is() -> None:
    code = (
        "import gc, sys; from ecumene.cli import app; sys.argv[1:] = ['version'];"
        "exit = sys.exit;"
        "sys.exit = lambda code: exit(print('FROZEN', gc.get_freeze_count() > 1000, gc.isenabled(), code));"
        "app.program()"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    assert "FROZEN True True 0" in shown


def test_in_a_program_of_somebody_else_the_collector_is_theirs() -> None:
    frozen = gc.get_freeze_count()
    assert app.main(["version"]) == 0
    assert (gc.get_freeze_count(), gc.isenabled()) == (frozen, True)


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ecumene"] == "0.1.0"


@pytest.mark.parametrize("arguments", [["nonsense"], ["version", "--nonsense"], ["version", "too", "much"]])
def test_wrong_arguments_are_two_lines_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(arguments) == failures.ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 2
    assert "--help" in shown.err


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([]) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (failures.CliError("no world 'x' on the server", hint="ecumene world list"), 1, 2),
        (failures.UsageError("--agents needs a number above 0"), 2, 1),
        (failures.StoppedByBudget("stopped at 10 USD"), 3, 1),
        (failures.Interrupted(hint="resume: ecumene resume r1"), 130, 2),
        (KeyboardInterrupt(), 130, None),
    ],
)
def test_an_expected_error_is_short_and_has_its_code(
    planted: types.ModuleType,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    lines: int | None,
) -> None:
    def run() -> None:
        raise error

    planted.run = run  # type: ignore[attr-defined]
    assert app.main(["planted"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert lines is None or len(shown.err.splitlines()) == lines


def test_an_error_of_the_sdk_is_expected(
    planted: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class SdkError(Exception):
        """Stands for the SDK's."""

    def run() -> None:
        raise SdkError("connection refused\nat 127.0.0.1:1")

    monkeypatch.setattr(ecumene, "EcumeneError", SdkError, raising=False)
    planted.run = run  # type: ignore[attr-defined]
    assert app.main(["planted"]) == 1
    assert capsys.readouterr().err == "ecumene: connection refused at 127.0.0.1:1\n"


def test_a_defect_keeps_its_traceback(planted: types.ModuleType) -> None:
    def run() -> None:
        raise ZeroDivisionError

    planted.run = run  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        app.main(["planted"])


@pytest.mark.parametrize(("outcome", "code"), [(None, 0), (0, 0), (3, 3)])
def test_a_returned_number_is_the_exit_code(planted: types.ModuleType, outcome: int | None, code: int) -> None:
    planted.run = lambda: outcome  # type: ignore[attr-defined]
    assert app.main(["planted"]) == code


def test_a_group_has_its_own_subcommands(planted: types.ModuleType) -> None:
    group = typer.Typer()
    called = []
    group.command("one")(lambda: called.append("one"))
    group.command("two")(lambda: called.append("two"))
    planted.run = group  # type: ignore[attr-defined]
    assert app.main(["planted", "two"]) == 0
    assert called == ["two"]


def test_the_help_on_names_loses_no_part_to_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["world", "create", "--help"]) == 0
    assert "a-z, 0-9 and -" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_cannot_show_is_replaced_and_json_is_whole(encoding: str) -> None:
    code = (
        "from ecumene.cli.app import replace_what_cannot_be_shown; from ecumene.cli.tables import print_json\n"
        "replace_what_cannot_be_shown(); print_json({'name': '実験'}); print('2/3 × 実験')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=60).stdout
    document, text = shown.decode(encoding).splitlines()
    assert json.loads(document) == {"name": "実験"}
    assert text.endswith("??")


def test_who_reads_no_further_gets_no_traceback() -> None:
    command = [sys.executable, "-m", "ecumene.cli", "version"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == failures.ExitCode.FAILED


def test_the_module_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "ecumene.cli", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "ecumene 0.1.0\n"

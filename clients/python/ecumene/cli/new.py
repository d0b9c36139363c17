"""`ecumene new`: begin something of one's own from a template that works."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ecumene.cli.failures import CliError, UsageError, missing_extra

app = typer.Typer(no_args_is_help=True)

INSTALLED = "ecumene.behaviours"
"""The entry points of behaviours. Two of one kind, and the server would not start."""
_EXPERIMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Template, and where it goes below the package's folder; `{kind}` = the behaviour's name.
_PARTS = {
    "pyproject.toml.tmpl": "pyproject.toml",
    "README.md.tmpl": "README.md",
    "__init__.py.tmpl": "{kind}/__init__.py",
    "behaviour.py.tmpl": "{kind}/behaviour.py",
    "test_behaviour.py.tmpl": "tests/test_behaviour.py",
}


@app.callback()
def new() -> None:
    """Begin something of one's own from a template that works."""


@app.command()
def behaviour(
    name: Annotated[str, typer.Argument(help="Kind of environment: a-z, 0-9 and _, at most 40.", metavar="NAME")],
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to put it; by default a new folder of that name.")
    ] = None,
) -> None:
    """Make a small installable package with a behaviour, its test and a README."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} is no name for a behaviour: write a-z, 0-9 and _, beginning with a letter, no word of Python"
        )
    if name in entry_points(group=INSTALLED).names:
        raise CliError(f"a behaviour of the kind {name} is installed already", hint="give it another name")
    if name in sys.stdlib_module_names:
        raise CliError(
            f"Python has a module {name} of its own, which the package would hide", hint="give it another name"
        )
    target = directory or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CliError(f"{target} is there already and not empty", hint="give another place with --dir")
    words = {"kind": name, "distribution": name.replace("_", "-"), "class_name": _class_name(name)}
    templates = files("ecumene.cli") / "templates" / "behaviour"
    try:
        for template, place in _PARTS.items():
            text = (templates / template).read_text(encoding="utf-8")
            path = target / place.format(kind=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    except OSError as error:
        raise CliError(f"{target} cannot be written: {error.strerror}") from error
    print(f"made {target}: try  cd {target} && pip install -e '.[test]' && pytest")


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(help="Of the experiment: a-z, 0-9 and -, at most 40.", metavar="NAME")],
    directory: Annotated[Path, typer.Option("--dir", help="Where to put it.")] = Path(),
) -> None:
    """Write a spec that runs, with the schema by which an editor completes it."""
    if not _EXPERIMENT.fullmatch(name):
        raise UsageError(f"{name!r} is no name for an experiment: write a-z, 0-9 and -, the first no -")
    try:
        from ecumene.sim.specs.schema import dump_schema
    except ModuleNotFoundError as error:
        raise missing_extra("new experiment", "sim") from error
    target = directory / f"{name}.yaml"
    template = files("ecumene.cli") / "templates" / "experiment" / "spec.yaml.tmpl"
    text = Template(template.read_text(encoding="utf-8")).substitute(name=name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
        (directory / "spec.schema.json").write_text(dump_schema(), encoding="utf-8")
    except FileExistsError as error:
        raise CliError(f"{target} is there already", hint="give another name, or another place with --dir") from error
    except OSError as error:
        raise CliError(f"{target} cannot be written: {error.strerror}") from error
    print(f"made {target}: try  ecumene check {target} && ecumene run {target}")


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_") if word) or "Behaviour"

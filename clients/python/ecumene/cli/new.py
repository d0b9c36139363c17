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

from ecumene.cli.failures import CliError, UsageError

app = typer.Typer(no_args_is_help=True)

INSTALLED = "ecumene.behaviours"
"""The entry points of behaviours. Two of one kind, and the server would not start."""
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


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_") if word) or "Behaviour"

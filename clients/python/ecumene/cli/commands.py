"""Which subcommands exist, and where each one lives.

A row is all that `ecumene --help` reads: no target is imported before it is called. A target is
"module:attribute", either a function (one command) or a `typer.Typer` (a command with its own
subcommands). `extra` names the extra whose packages the target needs.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ecumene.cli.failures import CliError, missing_extra


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand of `ecumene`."""

    name: str
    target: str
    summary: str
    extra: str | None = None


COMMANDS: tuple[Command, ...] = (
    Command(
        "demo",
        "ecumene.cli.demo:demo",
        "Play five rounds of the guess game, all in one.",
        "server,runtime,sim",
    ),
    Command("serve", "ecumene.cli.services:serve", "Start the environment server.", "server"),
    Command("runtime", "ecumene.cli.services:runtime", "Start an agent runtime.", "runtime"),
    Command("run", "ecumene.cli.run:run", "Execute the experiment that a spec describes.", "sim"),
    Command("resume", "ecumene.cli.resume:resume", "Go on with a run that ended before its time.", "sim"),
    Command("population", "ecumene.cli.population:population", "Draw a spec's population; see how it fits.", "sim"),
    Command(
        "background", "ecumene.cli.background:background", "Write who the agents of a spec are, by a model.", "sim"
    ),
    Command("stop", "ecumene.cli.stop:stop", "End a run or a sweep in order, from another terminal.", "sim"),
    Command("check", "ecumene.cli.check:check", "Find all mistakes of specs before anything runs.", "sim"),
    Command(
        "estimate", "ecumene.cli.estimate:estimate", "Say what specs will take: calls, tokens, money, time.", "sim"
    ),
    Command("schema", "ecumene.cli.schema:schema", "Print the JSON schema of specs, for an editor.", "sim"),
    Command("probe", "ecumene.cli.probe:probe", "Ask a few of each group who they are, before a run.", "sim"),
    Command("report", "ecumene.cli.report:report", "Write one HTML page on a run or a sweep.", "sim"),
    Command("export", "ecumene.cli.export:export", "Write recorded tables as CSV, JSON or Parquet.", "sim"),
    Command("bench", "ecumene.cli.bench:bench", "Measure, beside the bare limit of this machine.", "bench"),
    Command("world", "ecumene.cli.world:app", "Create, list, copy and delete worlds.", None),
    Command("env", "ecumene.cli.env:app", "Read, change and watch environments.", None),
    Command("clock", "ecumene.cli.clock:app", "Look at simulated time, and let it go on.", None),
    Command("timers", "ecumene.cli.clock:timers", "List the timers of an environment.", None),
    Command("near", "ecumene.cli.near:near", "Show who is near an entry or a position.", None),
    Command("nodes", "ecumene.cli.nodes:app", "Launch runs on nodes, inspect and stop them.", None),
    Command("interview", "ecumene.cli.asking:interview", "Ask a living agent anything.", None),
    Command("survey", "ecumene.cli.asking:survey", "Ask a sample of living agents typed questions.", None),
    Command("intervene", "ecumene.cli.intervene:app", "Mute an agent, sit in its place, edit the world.", None),
    Command(
        "offline", "ecumene.cli.services:offline", "Check, read and upgrade worlds that no server has open.", "server"
    ),
    Command("new", "ecumene.cli.new:app", "Begin an experiment or a behaviour of your own.", None),
    Command("version", "ecumene.cli.version:version", "Show versions of Ecumene and what it runs on.", None),
)

# Services load their whole module, so they take their arguments untouched.
PASS_THROUGH = frozenset({"serve", "runtime", "offline"})


def find_command(name: str) -> Command | None:
    """The row of a subcommand, or None."""
    return next((row for row in COMMANDS if row.name == name), None)


def load_target(command: Command) -> Any:
    """Import what a row names.

    Raises CliError in one line if the target's module is not part of this installation, or if a
    package of its extra is missing. An ImportError inside our own code is a defect and passes on.
    """
    module_name, _, attribute = command.target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name == module_name:
            raise CliError(f"ecumene {command.name} is not part of this version of Ecumene") from error
        if command.extra is None or is_ours(error.name):
            raise
        raise missing_extra(command.name, command.extra) from error


def is_ours(module_name: str | None) -> bool:
    """Whether a module belongs to this distribution, so that no extra can bring it."""
    top = (module_name or "").partition(".")[0]
    return top in {"ecumene", "env_server", "agent_runtime", "env_api", "env_storage", "agent_api"}

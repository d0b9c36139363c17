"""The `ecumene` command: a table of subcommands, each imported only when it is called."""

from ecumene.cli.app import main, program
from ecumene.cli.failures import CliError

__all__ = ["CliError", "main", "program"]

"""The `ecumene` command: a table of subcommands, each imported only when it is called."""

from ecumene.cli.app import main
from ecumene.cli.failures import CliError

__all__ = ["CliError", "main"]

"""`python -m ecumene.cli`: the command line where the script is not on the path."""

from ecumene.cli.app import program

program()

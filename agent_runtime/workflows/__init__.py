"""Hosts of workflows: processes in which actors of central scripts live. `host` is the program."""

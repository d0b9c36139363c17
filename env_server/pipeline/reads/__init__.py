"""Reads that take several loop steps, from the tree or from the log."""

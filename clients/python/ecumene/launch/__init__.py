"""Starts services as subprocesses, found by entry point."""

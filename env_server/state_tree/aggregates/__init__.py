"""Aggregates: exact, whatever the order of changes, and taken back as exactly."""

"""Bare limits: what the same work costs without features, measured in the same run as the real thing.

Programs of their own (`python -m ecumene.bench.limits.lean_server`, `...lean_sleepers`), so that they have a process
each, as the real ones do.
"""

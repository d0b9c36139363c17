"""Benchmarks, each measured beside its bare limit in the same run."""

"""Schemas of entries: what values an environment lets in."""

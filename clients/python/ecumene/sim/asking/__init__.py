"""Asking the agents of a run while nobody plays: whom, when, and what came of it."""

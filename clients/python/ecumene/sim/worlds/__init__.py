"""Makes the world of a run as its spec describes it."""

"""The spec of a run: its sections, where each problem of one stands, and how it is read."""

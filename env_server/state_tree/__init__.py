"""The state of a world in memory: what ops mean, applied one at a time, with undo. No I/O, no clock, no wire."""

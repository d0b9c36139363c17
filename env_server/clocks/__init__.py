"""Clocks of the engine (ports.Clock): the loop's own, and one that stands still until it is told to go on."""

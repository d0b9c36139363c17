"""The other rpcs, as they come in."""

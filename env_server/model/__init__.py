"""What a world is made of, as plain data: no I/O, no clock, no randomness, no wire format."""

"""Where entries are: one index for each shape of space, and what can be asked of it."""

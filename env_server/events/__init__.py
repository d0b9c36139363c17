"""What happened, told to whoever watches: one order of groups, and cursors on it."""

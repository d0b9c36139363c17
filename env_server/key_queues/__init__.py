"""The order of ops that wait: one queue a key, entered in the loop step in which the op arrives."""

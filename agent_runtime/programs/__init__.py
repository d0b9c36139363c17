"""What the programs of a runtime have in common: lines of standard output, the wait for an end, what they cost."""

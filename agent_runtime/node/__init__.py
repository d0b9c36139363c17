"""A node of a runtime: hosts parts of runs in worker processes, watches over them, and takes over what others lose."""

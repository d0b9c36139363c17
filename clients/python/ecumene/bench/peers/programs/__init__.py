"""Loads that run in the environments of peers: scripts that import nothing of ours and print one JSON line."""

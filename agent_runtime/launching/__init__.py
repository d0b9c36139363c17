"""A launch before anything runs: its agents are checked, its groups cut into parts, those shared out to workers."""

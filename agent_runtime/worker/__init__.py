"""The process that hosts agents: its program and its stages, and what a daemon sees of it (`commands`, `process`)."""

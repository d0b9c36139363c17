"""Agents: who lives in a runtime, and the ones that come with it."""

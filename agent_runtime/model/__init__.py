"""The words of a runtime: notices, actions, records of turns, and what can go wrong."""

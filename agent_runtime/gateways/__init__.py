"""The models that the agents of a worker ask: opened, shared out, paid for."""

"""Ecumene for Python: the client, simulations, and the command line."""

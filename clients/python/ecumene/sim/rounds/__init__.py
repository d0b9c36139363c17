"""Conducts the rounds of a game, with agents and guests."""

"""Turns: one activation of an agent each, from the notice to the outcome and its record."""

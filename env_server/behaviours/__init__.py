"""Behaviours: kinds of environments with operations of their own."""

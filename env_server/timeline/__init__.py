"""Simulated time: one clock with the timers on it, as a state machine that others drive."""

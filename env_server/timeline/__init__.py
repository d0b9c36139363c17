"""Simulated time: one clock with the timers on it, as a state machine. Who drives it, and what it tells, is elsewhere."""

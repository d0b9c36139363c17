"""Simulated time as part of a world: clocks and timers as ops, what is told of them, and what makes clocks go on."""

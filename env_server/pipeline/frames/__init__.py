"""Frames: one synchronous pass over the ops of each, and the parts of its answer."""

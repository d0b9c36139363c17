"""From the world's events to notices: one watch a group, and an index of wake rules."""
